"""What rank 0 makes of the reports, without files."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from checked_hosts import SOFTWARE, SYSCTLS, gpu_host, with_environment
from counterpoint.doctor.checks import run_checks
from counterpoint.doctor.cluster import CLUSTER_CHECKS, merge_reports, missing_ranks, report_of
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import Checkup, HostReport, HostReports, Status


def reports(*hosts: HostFacts) -> tuple[HostReport, ...]:
    return tuple(
        report_of(rank, replace(host, host=f"node{rank}"), run_checks(host))
        for rank, host in enumerate(hosts)
    )


def merged(*hosts: HostFacts, size: int = 0) -> Checkup:
    return merge_reports(
        HostReports(size=size or len(hosts), seconds=60.0, reports=reports(*hosts)), CLUSTER_CHECKS
    )


def verdicts(checkup: Checkup, name: str) -> list[tuple[Status, str]]:
    return [
        (one.verdict.status, one.verdict.found)
        for one in checkup.verdicts
        if one.verdict.name == name
    ]


def other(**versions: str) -> HostFacts:
    return gpu_host(software=replace(SOFTWARE, packages={**SOFTWARE.packages, **versions}))


def test_hosts_that_are_alike_are_well() -> None:
    checkup = merged(*(gpu_host(),) * 4)
    assert not checkup.failed
    assert verdicts(checkup, "hosts-differ") == [
        (Status.OK, "4 ranks on 4 hosts have the same versions and settings")
    ]
    assert checkup.hosts == ("node0", "node1", "node2", "node3")


def test_the_host_with_another_version_is_named() -> None:
    checkup = merged(gpu_host(), gpu_host(), other(jaxlib="0.10.1"), gpu_host())
    first = checkup.verdicts[0].verdict
    assert (first.code, first.status) == ("DOC601", Status.ERROR)
    assert first.found == "jaxlib: 0.10.1 on node2, 0.10.2 on the 3 others"
    assert first.remedy == "pip install jaxlib==0.10.2"


def test_a_package_that_one_host_lacks_is_a_difference_and_an_interface_is_not() -> None:
    bare = gpu_host(software=replace(SOFTWARE, packages={"jax": "0.10.2", "jaxlib": "0.10.2"}))
    bare = replace(bare, network=replace(bare.network, interfaces=()))
    names = [found.split(":")[0] for _, found in verdicts(merged(gpu_host(), bare), "hosts-differ")]
    assert "flax" in names
    assert not any(name.startswith("MTU") for name in names)


def test_differences_of_settings_kernel_and_mtu_are_verdicts() -> None:
    host = gpu_host()
    small = replace(host.network.interfaces[1], mtu=1500)
    sysctls = {**SYSCTLS, "net.ipv4.tcp_rmem": "4096 131072 6291456"}
    odd = replace(
        with_environment(host, XLA_FLAGS="--xla_gpu_enable_x=true", NCCL_ALGO="Ring"),
        network=replace(host.network, interfaces=(small,), sysctls=sysctls),
    )
    found = {
        text.split(":")[0]: status
        for status, text in verdicts(merged(host, host, odd), "hosts-differ")
    }
    assert found == {
        "MTU ens3": Status.WARNING,
        "NCCL_ALGO": Status.WARNING,
        "XLA_FLAGS": Status.ERROR,
        "net.ipv4.tcp_rmem": Status.WARNING,
    }


def test_variables_of_ranks_and_devices_may_differ() -> None:
    one = with_environment(
        gpu_host(), JAX_PROCESS_ID="0", CUDA_VISIBLE_DEVICES="0", TPU_WORKER_ID="0"
    )
    two = with_environment(
        gpu_host(), JAX_PROCESS_ID="1", CUDA_VISIBLE_DEVICES="1", TPU_WORKER_ID="1"
    )
    assert not merged(one, two).failed


def test_dumps_may_go_elsewhere_on_each_rank() -> None:
    one = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/0 --xla_gpu_x=1")
    two = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/1 --xla_gpu_x=1")
    assert not merged(one, two).failed


def test_equal_verdicts_of_several_hosts_are_one() -> None:
    bad = with_environment(gpu_host(), NCCL_P2P_DISABLE="1")
    checkup = merged(bad, bad, gpu_host())
    (one,) = (
        one
        for one in checkup.verdicts
        if one.verdict.name == "nccl-environment" and len(one.hosts) > 1
    )
    assert one.hosts == ("node0", "node1")
    assert checkup.failed


def test_ranks_of_one_host_that_differ_are_named_with_a_command() -> None:
    one, two = reports(gpu_host(), with_environment(gpu_host(), XLA_FLAGS="--xla_a=1 --xla_b=2"))
    both = HostReports(size=2, seconds=60.0, reports=(one, replace(two, host="node0")))
    (verdict,) = (
        one.verdict
        for one in merge_reports(both, CLUSTER_CHECKS).verdicts
        if one.verdict.code == "DOC601"
    )
    assert verdict.found == (
        "XLA_FLAGS: missing on rank 0 of node0, --xla_a=1 --xla_b=2 on rank 1 of node0"
    )
    assert verdict.remedy.startswith("export XLA_FLAGS='--xla_a=1 --xla_b=2'   #")


def test_missing_ranks_are_named() -> None:
    checkup = merged(gpu_host(), gpu_host(), size=4)
    assert verdicts(checkup, "missing-ranks") == [
        (Status.ERROR, "2 of 4 ranks did not report within 60 s: 2, 3")
    ]


def test_nodes_without_any_report_are_named() -> None:
    present = tuple(replace(one, node=f"n{one.rank}") for one in reports(gpu_host(), gpu_host()))
    nodes = ("n0", "n1", "n2", "n3")
    lacking = HostReports(size=4, seconds=60.0, reports=present, nodes=nodes)
    (verdict,) = missing_ranks.check(lacking)
    assert verdict.found.endswith("within 60 s: 2, 3 (no report from n2, n3)")


def test_a_report_is_read_as_it_was_written() -> None:
    (report,) = reports(gpu_host())
    assert msgspec.json.decode(msgspec.json.encode(report), type=HostReport) == report
