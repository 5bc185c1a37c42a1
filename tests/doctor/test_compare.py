"""Reports of several hosts, as they are written there and compared in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checked_hosts import SOFTWARE, SYSCTLS, gpu_host, with_environment
from counterpoint.core import InputError
from counterpoint.doctor.checks import run_checks
from counterpoint.doctor.comparison import compare, report_of
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import Checkup, Status, merge
from counterpoint.report.doctor import doctor_json

Merged = Callable[..., Checkup]


@pytest.fixture(name="merged")
def _merged(tmp_path: Path) -> Merged:
    def merged(*hosts: HostFacts, name: str = "node{}") -> Checkup:
        paths: list[Path] = []
        for number, host in enumerate(hosts):
            named = replace(host, host=name.format(number))
            report = report_of(named, run_checks(named))
            paths.append(tmp_path / f"{number}.json")
            paths[-1].write_text(doctor_json(merge([report]), "next"))
        return compare(paths)

    return merged


def verdicts(checkup: Checkup, name: str) -> list[tuple[Status, str]]:
    return [
        (one.verdict.status, one.verdict.found)
        for one in checkup.verdicts
        if one.verdict.name == name
    ]


def other(**versions: str) -> HostFacts:
    return gpu_host(software=replace(SOFTWARE, packages={**SOFTWARE.packages, **versions}))


def test_hosts_that_are_alike_are_well(merged: Merged) -> None:
    checkup = merged(*(gpu_host(),) * 4)
    assert not checkup.failed
    assert verdicts(checkup, "hosts-differ") == [
        (Status.OK, "4 hosts have the same versions and settings")
    ]
    assert checkup.hosts == ("node0", "node1", "node2", "node3")


def test_the_host_with_another_version_is_named(merged: Merged) -> None:
    checkup = merged(gpu_host(), gpu_host(), other(jaxlib="0.10.1"), gpu_host())
    first = checkup.verdicts[0].verdict
    assert (first.code, first.status) == ("DOC601", Status.ERROR)
    assert first.found == "jaxlib: 0.10.1 on node2, 0.10.2 on the 3 others"
    assert first.remedy == "pip install jaxlib==0.10.2"


def test_a_package_that_one_host_lacks_differs_and_an_interface_does_not(
    merged: Merged,
) -> None:
    bare = gpu_host(software=replace(SOFTWARE, packages={"jax": "0.10.2", "jaxlib": "0.10.2"}))
    bare = replace(bare, network=replace(bare.network, interfaces=()))
    names = [found.split(":")[0] for _, found in verdicts(merged(gpu_host(), bare), "hosts-differ")]
    assert "flax" in names
    assert not any(name.startswith("MTU") for name in names)


def test_differences_of_settings_kernel_and_mtu_are_verdicts(merged: Merged) -> None:
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


def test_variables_of_ranks_and_devices_may_differ(merged: Merged) -> None:
    one = with_environment(
        gpu_host(), JAX_PROCESS_ID="0", CUDA_VISIBLE_DEVICES="0", TPU_WORKER_ID="0"
    )
    two = with_environment(
        gpu_host(), JAX_PROCESS_ID="1", CUDA_VISIBLE_DEVICES="1", TPU_WORKER_ID="1"
    )
    assert not merged(one, two).failed


def test_dumps_may_go_elsewhere_on_each_rank(merged: Merged) -> None:
    one = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/0 --xla_gpu_x=1")
    two = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/1 --xla_gpu_x=1")
    assert not merged(one, two).failed


def test_equal_verdicts_of_several_hosts_are_one(merged: Merged) -> None:
    bad = with_environment(gpu_host(), NCCL_P2P_DISABLE="1")
    checkup = merged(bad, bad, gpu_host())
    (one,) = (
        one
        for one in checkup.verdicts
        if one.verdict.name == "nccl-environment" and len(one.hosts) > 1
    )
    assert one.hosts == ("node0", "node1")
    assert checkup.failed


def test_hosts_of_one_name_are_told_apart_by_their_files(merged: Merged, tmp_path: Path) -> None:
    other_flags = with_environment(gpu_host(), XLA_FLAGS="--xla_a=1 --xla_b=2")
    checkup = merged(gpu_host(), other_flags, name="train")
    ((_, found),) = [it for it in verdicts(checkup, "hosts-differ") if "XLA_FLAGS" in it[1]]
    assert found == (
        f"XLA_FLAGS: missing on train ({tmp_path}/0.json),"
        f" --xla_a=1 --xla_b=2 on train ({tmp_path}/1.json)"
    )
    assert checkup.verdicts[0].verdict.remedy.startswith("export XLA_FLAGS='--xla_a=1 --xla_b=2'")


def test_a_verdict_is_read_as_it_was_written(merged: Merged) -> None:
    host = with_environment(gpu_host(), NCCL_P2P_DISABLE="1")
    alone, both = merge([report_of(host, run_checks(host))]), merged(host, host)
    own, read = ({it.verdict for it in checkup.verdicts} for checkup in (alone, both))
    assert {it for it in own if "node" not in it.found} < read


def test_what_is_no_report_of_one_host_is_refused(merged: Merged, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    for content, why in (
        ("{", "not a report"),
        ("{}", "not a report"),
        (doctor_json(merged(gpu_host(), gpu_host()), "next"), "the report of 2 hosts"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=why):
            compare([path, path])
    with pytest.raises(InputError, match="can't be read"):
        compare([tmp_path, tmp_path])
