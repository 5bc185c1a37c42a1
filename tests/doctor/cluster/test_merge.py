"""What rank 0 makes of the reports, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checked_hosts import SOFTWARE, SYSCTLS, gpu_host, with_environment
from counterpoint.doctor.cluster.clock import Offset, Ping, offset
from counterpoint.doctor.cluster.consult import merge
from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.cluster.merged import COMPARISONS
from counterpoint.doctor.cluster.report import Report, as_message, from_message, report_of
from counterpoint.doctor.cluster.wire import Gone
from counterpoint.doctor.diagnosis import Diagnosis, Status
from counterpoint.doctor.examine import examine
from counterpoint.doctor.facts import Facts


def reports(*hosts: Facts) -> tuple[Report, ...]:
    return tuple(
        report_of(rank, replace(host, host=f"node{rank}"), examine(host))
        for rank, host in enumerate(hosts)
    )


def merged(
    hosts: tuple[Facts, ...], offsets: Mapping[int, Offset] | None = None, size: int = 0
) -> Diagnosis:
    together = Gathering(
        size=size or len(hosts),
        seconds=60.0,
        reports=reports(*hosts),
        offsets={0: Offset(0.0, 0.0), **(offsets or {})},
    )
    return merge(together, COMPARISONS)


def told(diagnosis: Diagnosis, name: str) -> list[tuple[Status, str]]:
    return [
        (one.verdict.status, one.verdict.found)
        for one in diagnosis.said
        if one.verdict.name == name
    ]


def other(**versions: str) -> Facts:
    return gpu_host(software=replace(SOFTWARE, packages={**SOFTWARE.packages, **versions}))


def test_hosts_that_are_alike_are_well() -> None:
    diagnosis = merged((gpu_host(),) * 4)
    assert not diagnosis.failed
    assert told(diagnosis, "hosts-differ") == [
        (Status.OK, "4 ranks on 4 hosts have the same versions and settings")
    ]
    assert diagnosis.hosts == ("node0", "node1", "node2", "node3")


def test_the_host_with_another_version_is_named() -> None:
    diagnosis = merged((gpu_host(), gpu_host(), other(jaxlib="0.10.1"), gpu_host()))
    first = diagnosis.said[0].verdict
    assert (first.code, first.status) == ("DOC601", Status.ERROR)
    assert first.found == "jaxlib: 0.10.1 on node2, 0.10.2 on the 3 others"
    assert first.remedy == "pip install jaxlib==0.10.2"


def test_a_package_that_one_host_lacks_is_told_and_an_interface_is_not() -> None:
    bare = gpu_host(software=replace(SOFTWARE, packages={"jax": "0.10.2", "jaxlib": "0.10.2"}))
    bare = replace(bare, network=replace(bare.network, interfaces=()))
    names = [found.split(":")[0] for _, found in told(merged((gpu_host(), bare)), "hosts-differ")]
    assert "flax" in names
    assert not any(name.startswith("MTU") for name in names)


def test_differences_of_settings_kernel_and_mtu_are_told() -> None:
    host = gpu_host()
    small = replace(host.network.interfaces[1], mtu=1500)
    sysctls = {**SYSCTLS, "net.ipv4.tcp_rmem": "4096 131072 6291456"}
    odd = replace(
        with_environment(host, XLA_FLAGS="--xla_gpu_enable_x=true", NCCL_ALGO="Ring"),
        network=replace(host.network, interfaces=(small,), sysctls=sysctls),
    )
    found = {
        text.split(":")[0]: status
        for status, text in told(merged((host, host, odd)), "hosts-differ")
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
    assert not merged((one, two)).failed


def test_dumps_may_go_elsewhere_on_each_rank() -> None:
    one = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/0 --xla_gpu_x=1")
    two = with_environment(gpu_host(), XLA_FLAGS="--xla_dump_to=/tmp/1 --xla_gpu_x=1")
    assert not merged((one, two)).failed


def test_the_same_words_of_several_hosts_are_one() -> None:
    bad = with_environment(gpu_host(), NCCL_P2P_DISABLE="1")
    diagnosis = merged((bad, bad, gpu_host()))
    (one,) = (it for it in diagnosis.said if it.verdict.name == "nccl-environment" and it.hosts[1:])
    assert one.hosts == ("node0", "node1")
    assert diagnosis.failed


def test_a_clock_that_is_off_is_told_with_its_uncertainty() -> None:
    offsets = {1: Offset(0.3, 0.1), 2: Offset(1300.1, 0.2), 3: Offset(-0.2, 0.1)}
    diagnosis = merged((gpu_host(),) * 4, offsets)
    assert told(diagnosis, "clocks-apart") == [
        (Status.WARNING, "node2's clock is 1.300 s ahead (± 0.2 ms, measured)")
    ]


def test_where_rank_0_is_the_one_that_is_off_it_is_named() -> None:
    offsets = {rank: Offset(-2500.0, 0.2) for rank in (1, 2, 3)}
    assert told(merged((gpu_host(),) * 4, offsets), "clocks-apart") == [
        (Status.WARNING, "node0's clock is 2.500 s ahead (± 0.2 ms, measured)")
    ]


def test_small_offsets_are_shown_as_they_are_and_one_host_has_one_clock() -> None:
    offsets = {1: Offset(0.012, 0.02), 2: Offset(-0.03, 0.01)}
    assert told(merged((gpu_host(),) * 3, offsets), "clocks-apart") == [
        (Status.OK, "clocks are within 42.0 us of each other (± 30.0 us, measured)")
    ]
    alone = replace(reports(gpu_host())[0], rank=1)
    both = Gathering(size=2, seconds=60.0, reports=(*reports(gpu_host()), alone), offsets={})
    assert told(merge(both, COMPARISONS), "clocks-apart")[0][0] is Status.NOT_APPLICABLE


def test_ranks_of_one_host_that_differ_are_named_with_a_command() -> None:
    one, two = reports(gpu_host(), with_environment(gpu_host(), XLA_FLAGS="--xla_a=1 --xla_b=2"))
    both = Gathering(size=2, seconds=60.0, reports=(one, replace(two, host="node0")), offsets={})
    (said,) = (it.verdict for it in merge(both, COMPARISONS).said if it.verdict.code == "DOC601")
    assert said.found == (
        "XLA_FLAGS: not there on rank 0 of node0, --xla_a=1 --xla_b=2 on rank 1 of node0"
    )
    assert said.remedy.startswith("export XLA_FLAGS='--xla_a=1 --xla_b=2'   #")


def test_an_offset_within_its_uncertainty_is_none() -> None:
    diagnosis = merged((gpu_host(),) * 2, {1: Offset(40.0, 35.0)})
    assert told(diagnosis, "clocks-apart")[0][0] is Status.OK


def test_missing_ranks_are_named() -> None:
    diagnosis = merged((gpu_host(), gpu_host()), size=4)
    assert told(diagnosis, "missing-ranks") == [
        (Status.ERROR, "2 of 4 ranks did not report within 60 s: 2, 3")
    ]


def test_the_quickest_ping_counts() -> None:
    slow = Ping(asked=0, theirs=9_000_000, heard=10_000_000)
    quick = Ping(asked=20_000_000, theirs=25_100_000, heard=20_400_000)
    assert offset([slow, quick]) == Offset(4.9, 0.2)
    assert offset([]) is None


def test_a_report_comes_back_as_it_was_sent() -> None:
    (report,) = reports(gpu_host())
    assert from_message(as_message(report)) == report


@pytest.mark.parametrize("message", [{}, {"rank": 1, "host": "a", "verdicts": 3, "compared": {}}])
def test_a_report_of_another_shape_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(Gone, match="another shape"):
        from_message(message)
