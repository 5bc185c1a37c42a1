"""Each check on made-up hosts: one where it speaks, one where not, and one that is close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checked_hosts import (
    GIB,
    SOFTWARE,
    SYSCTLS,
    asked,
    gpu_host,
    laptop,
    with_environment,
    worst,
)
from counterpoint.core.rules import DocumentedRule, read_page
from counterpoint.doctor import hosts_differ
from counterpoint.doctor.checks import CHECKS, run_checks
from counterpoint.doctor.facts import (
    CheckedFlags,
    FlagRemark,
    HostFacts,
    Interface,
    KernelClock,
    RdmaPort,
    ResourceLimit,
)
from counterpoint.doctor.requirement import parse_requirement
from counterpoint.doctor.result import FAILING, Status
from golden_files import Golden

OK, NOTE, WARNING, ERROR = Status.OK, Status.NOTE, Status.WARNING, Status.ERROR
UNKNOWN, NONE = Status.UNKNOWN, Status.NOT_APPLICABLE


def packages(**versions: str) -> HostFacts:
    merged = {**SOFTWARE.packages} | {
        name.replace("_", "-"): text for name, text in versions.items()
    }
    kept = {name: text for name, text in merged.items() if text}
    return gpu_host(software=replace(SOFTWARE, packages=kept))


def driver(version: str, **changes: Any) -> HostFacts:  # noqa: ANN401
    return gpu_host(gpus=replace(gpu_host().gpus, driver=version), **changes)


def sysctl(name: str, value: str, **changes: Any) -> HostFacts:  # noqa: ANN401
    host = gpu_host()
    return gpu_host(
        network=replace(host.network, sysctls={**SYSCTLS, name: value}), **{"dcn": True, **changes}
    )


def network(**changes: Any) -> HostFacts:  # noqa: ANN401
    return gpu_host(network=replace(gpu_host().network, **changes))


def machine(base: Callable[..., HostFacts] = gpu_host, **changes: Any) -> HostFacts:  # noqa: ANN401
    return base(machine=replace(base().machine, **changes))


def card(**changes: Any) -> HostFacts:  # noqa: ANN401
    gpus = gpu_host().gpus
    cards = (*gpus.cards[:3], replace(gpus.cards[3], **changes), *gpus.cards[4:])
    return gpu_host(gpus=replace(gpus, cards=cards))


def links(*kinds: str) -> HostFacts:
    gpus = gpu_host().gpus
    pairs = tuple((0, index, kind) for index, kind in enumerate(kinds, 1))
    return gpu_host(gpus=replace(gpus, links=pairs))


def place(number: int, **changes: Any) -> HostFacts:  # noqa: ANN401
    places = list(gpu_host().places)
    places[number] = replace(places[number], **changes)
    return gpu_host(places=tuple(places))


def env(**variables: str) -> HostFacts:
    return with_environment(gpu_host(), **variables)


def remark(severity: str) -> HostFacts:
    one = FlagRemark(
        code="FLAG101", severity=severity, name="xla_foo", message="unknown", advice="drop it"
    )
    return gpu_host(flags=CheckedFlags(names=("xla_foo",), release="0.10.2", remarks=(one,)))


DOWN = (Interface(name="ens3", up=False, mtu=8896), Interface(name="eth0", up=True, mtu=1500))
SMALL = (Interface(name="ens3", up=True, mtu=1500, speed_mbps=100_000),)
SLOW = (Interface(name="ens3", up=True, mtu=1500, speed_mbps=1000),)
NO_RDMA = (RdmaPort(device="mlx5_0", port=1, active=False),)

CASES = [
    ("versions", packages(), OK),
    ("versions", packages(jax_cuda13_plugin="0.9.0"), ERROR),
    ("versions", packages(jaxlib="0.10.1", jax_cuda13_plugin="0.10.1"), OK),
    ("versions", packages(jaxlib="0.10.3", jax_cuda13_plugin="0.10.3"), ERROR),
    ("versions", packages(jax_cuda13_pjrt=""), ERROR),
    ("versions", packages(nvidia_cudnn_cu13="9.10.1"), WARNING),
    ("versions", packages(nvidia_cudnn_cu13="9.12.0.46"), OK),
    ("versions", packages(jax="0.8.0", flax="0.12.0"), ERROR),
    ("versions", packages(jax_rocm7_plugin="0.9.1"), OK),
    ("versions", gpu_host(software=replace(SOFTWARE, packages={})), NONE),
    ("cuda-plugins", packages(jax_cuda12_plugin="0.10.2"), ERROR),
    ("cuda-plugins", packages(), OK),
    ("cuda-plugins", packages(jax_cuda12_pjrt="0.10.2"), OK),
    ("driver", driver("535.183.01"), ERROR),
    ("driver", driver("580.65.06"), OK),
    ("driver", driver("580.65.05"), ERROR),
    ("driver", driver("535.1", environment={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}), NOTE),
    ("driver", packages(jax_cuda13_plugin="", jax_cuda13_pjrt=""), WARNING),
    (
        "library-path",
        gpu_host(software=replace(SOFTWARE, shadowing=("/usr/local/cuda/lib64/libcudnn.so.9",))),
        WARNING,
    ),
    ("library-path", gpu_host(), OK),
    ("library-path", laptop(), NONE),
    ("flags", remark("error"), ERROR),
    ("flags", remark("warning"), WARNING),
    ("flags", remark("note"), OK),
    ("flags", gpu_host(flags=CheckedFlags(why_not="flags.txt can't be read")), UNKNOWN),
    ("flags", gpu_host(flags=CheckedFlags(libtpu=("xla_tpu_foo",), release="0.10.2")), UNKNOWN),
    ("profiler-conflicts", env(NSYS_PROFILING_SESSION_ID="1"), WARNING),
    ("profiler-conflicts", gpu_host(processes=("nv-hostengine",)), NOTE),
    ("profiler-conflicts", gpu_host(processes=("nv-hostdriver", "bash")), OK),
    ("profiler-conflicts", with_environment(laptop(), NSYS_PROFILING_SESSION_ID="1"), NONE),
    ("profiling-permission", gpu_host(gpus=replace(gpu_host().gpus, admin_only=True)), NOTE),
    (
        "profiling-permission",
        gpu_host(gpus=replace(gpu_host().gpus, admin_only=True), privileged=True),
        OK,
    ),
    ("profiling-permission", gpu_host(gpus=replace(gpu_host().gpus, admin_only=None)), UNKNOWN),
    ("compilation-cache", gpu_host(), OK),
    ("compilation-cache", env(JAX_COMPILATION_CACHE_DIR=""), NOTE),
    ("compilation-cache", env(JAX_COMPILATION_CACHE_DIR="gs://bucket/cache"), UNKNOWN),
    ("compilation-cache", env(JAX_ENABLE_COMPILATION_CACHE="false"), WARNING),
    ("compilation-cache", place(1, writable=False), WARNING),
    ("compilation-cache", place(1, free_bytes=GIB // 2), WARNING),
    ("compilation-cache", place(1, free_bytes=GIB), OK),
    ("compilation-cache", place(1, filesystem="ext4"), NOTE),
    ("compilation-cache", replace(place(1, filesystem="ext4"), hosts=1), OK),
    ("compilation-cache", env(JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="300"), NOTE),
    ("disk-space", place(0, free_bytes=GIB), WARNING),
    ("disk-space", place(0, free_bytes=2 * GIB), OK),
    ("disk-space", place(0, writable=False), NOTE),
    ("disk-space", gpu_host(places=()), UNKNOWN),
    ("open-files", machine(open_files=ResourceLimit(1024, 524288)), WARNING),
    ("open-files", replace(machine(open_files=ResourceLimit(1024, 524288)), hosts=1), NOTE),
    ("open-files", machine(open_files=ResourceLimit(4096, 4096)), OK),
    ("open-files", machine(laptop, open_files=ResourceLimit(1024, 1024)), NOTE),
    ("open-files", machine(laptop, open_files=ResourceLimit(1023, 1023)), WARNING),
    ("open-files", machine(open_files=None), UNKNOWN),
    ("locked-memory", machine(locked=ResourceLimit(8 * 2**20, 8 * 2**20)), WARNING),
    ("locked-memory", machine(locked=ResourceLimit(GIB, GIB)), OK),
    ("locked-memory", machine(laptop, locked=ResourceLimit(65536, 65536)), NONE),
    ("shared-memory", machine(shared_bytes=64 * 2**20, shared_free=64 * 2**20), WARNING),
    ("shared-memory", machine(laptop, shared_bytes=64 * 2**20), NOTE),
    ("shared-memory", machine(shared_bytes=GIB, shared_free=GIB), OK),
    ("shared-memory", machine(shared_bytes=GIB, shared_free=2**20), WARNING),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_MEM_FRACTION="0.98"), WARNING),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_MEM_FRACTION="0.97"), OK),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_MEM_FRACTION="90"), ERROR),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_MEM_FRACTION="90%"), ERROR),
    ("memory-fraction", env(XLA_CLIENT_MEM_FRACTION="0.9"), ERROR),
    (
        "memory-fraction",
        env(XLA_PYTHON_CLIENT_MEM_FRACTION="1.5", TF_FORCE_UNIFIED_MEMORY="1"),
        OK,
    ),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_PREALLOCATE="false"), NOTE),
    ("memory-fraction", env(XLA_PYTHON_CLIENT_MEM_FRACTION=""), OK),
    ("huge-pages", replace(machine(huge_pages="madvise"), tpu=True), WARNING),
    ("huge-pages", replace(machine(huge_pages="always"), tpu=True), OK),
    ("huge-pages", machine(huge_pages="madvise"), NONE),
    ("nccl-environment", env(NCCL_P2P_DISABLE="1"), WARNING),
    ("nccl-environment", env(NCCL_P2P_DISABLE="0"), OK),
    ("nccl-environment", env(NCCL_IB_DISABLE="1"), WARNING),
    ("nccl-environment", with_environment(network(rdma=NO_RDMA), NCCL_IB_DISABLE="1"), OK),
    ("nccl-environment", env(NCCL_IB_HCA="mlx5_0:1"), OK),
    ("nccl-environment", env(NCCL_IB_HCA="mlx5"), OK),
    ("nccl-environment", env(NCCL_IB_HCA="=mlx5"), WARNING),
    ("nccl-environment", env(NCCL_IB_HCA="^mlx4_0"), OK),
    ("nccl-environment", env(NCCL_DEBUG="INFO"), NOTE),
    ("nccl-environment", env(NCCL_DEBUG="WARN"), OK),
    ("nccl-environment", env(NCCL_DEBUG="TRACE"), WARNING),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="eth"), ERROR),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="=ens"), ERROR),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="=ens3,eth1"), OK),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="^docker,lo"), OK),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="^ens,lo"), ERROR),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME=""), NONE),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="lo"), ERROR),
    ("nccl-interfaces", env(NCCL_SOCKET_IFNAME="lo,ens"), OK),
    ("nccl-interfaces", replace(env(NCCL_SOCKET_IFNAME="lo"), hosts=1), OK),
    ("nccl-interfaces", network(interfaces=DOWN), ERROR),
    ("nccl-interfaces", network(interfaces=()), UNKNOWN),
    ("tcp-buffers", sysctl("net.ipv4.tcp_rmem", "4096 87380 212992"), WARNING),
    ("tcp-buffers", sysctl("net.ipv4.tcp_rmem", "4096 87380 6291456"), NOTE),
    ("tcp-buffers", sysctl("net.ipv4.tcp_rmem", "4096 87380 15728640"), OK),
    ("tcp-buffers", sysctl("net.ipv4.tcp_rmem", "4096 87380 212992", dcn=False), NOTE),
    ("tcp-buffers", sysctl("net.ipv4.tcp_rmem", "1", hosts=1, dcn=False), NONE),
    ("tcp-buffers", network(sysctls={}), UNKNOWN),
    ("tcp-buffers", sysctl("net.core.rmem_max", "212992"), NOTE),
    ("tcp-behavior", sysctl("net.ipv4.tcp_slow_start_after_idle", "1"), WARNING),
    ("tcp-behavior", sysctl("net.ipv4.tcp_slow_start_after_idle", "1", dcn=False), NOTE),
    ("tcp-behavior", sysctl("net.ipv4.tcp_congestion_control", "reno"), WARNING),
    ("tcp-behavior", sysctl("net.ipv4.tcp_congestion_control", "cubic"), OK),
    ("tcp-behavior", sysctl("net.ipv4.tcp_rto_min_us", "200000"), NOTE),
    ("tcp-behavior", sysctl("net.core.netdev_max_backlog", "1000"), NOTE),
    ("tcp-behavior", network(hystart_detect="3"), OK),
    ("mtu", network(interfaces=SMALL), NOTE),
    ("mtu", network(interfaces=SLOW), UNKNOWN),
    ("mtu", gpu_host(), OK),
    ("hostname", network(addresses=("127.0.1.1",)), WARNING),
    ("hostname", network(addresses=None), WARNING),
    ("hostname", network(addresses=("127.0.1.1", "10.0.0.1")), OK),
    ("hostname", laptop(), OK),
    ("clock", gpu_host(), OK),
    ("clock", machine(clock=KernelClock(synchronized=False)), WARNING),
    ("clock", machine(laptop, clock=KernelClock(synchronized=False)), NOTE),
    ("clock", machine(clock=KernelClock(why_not="not permitted")), UNKNOWN),
    ("cpu-governor", machine(governors={"powersave": 8}, frequency_driver="acpi-cpufreq"), WARNING),
    ("cpu-governor", machine(governors={"powersave": 8}, frequency_driver="intel_pstate"), NOTE),
    ("cpu-governor", machine(governors={"schedutil": 8}), OK),
    ("cpu-governor", machine(governors={}), NONE),
    ("numa", gpu_host(ranks_here=8), NOTE),
    ("numa", replace(machine(cpus_allowed=12), ranks_here=8), OK),
    ("numa", sysctl("kernel.numa_balancing", "1"), NOTE),
    ("numa", machine(numa_nodes=1), NONE),
    ("gpu-state", card(slowed_by=("heat (hardware)",)), WARNING),
    ("gpu-state", card(persistence=False), NOTE),
    ("gpu-state", card(ecc=False), NOTE),
    ("gpu-state", card(persistence=None, ecc=None), OK),
    ("gpu-state", gpu_host(gpus=replace(gpu_host().gpus, cards=())), UNKNOWN),
    ("gpu-topology", links("NV18", "SYS"), NOTE),
    ("gpu-topology", links("NV18", "NV18"), OK),
    ("gpu-topology", links("SYS", "PHB"), WARNING),
    ("gpu-topology", links(), UNKNOWN),
]


@pytest.mark.parametrize(("name", "host", "status"), CASES)
def test_a_check_says_how_bad_it_is(name: str, host: HostFacts, status: Status) -> None:
    assert worst(host, name) is status, asked(host, name)


def test_every_check_has_a_case_that_is_bad_or_noted_and_one_that_is_well() -> None:
    for one in CHECKS:
        statuses = {status for name, _, status in CASES if name == one.NAME}
        assert OK in statuses, one.NAME
        assert statuses & {ERROR, WARNING, NOTE}, one.NAME


def test_a_host_that_is_well_hears_nothing_bad() -> None:
    for host in (gpu_host(), gpu_host(hosts=1), gpu_host(dcn=True), laptop()):
        loud = [one for one in run_checks(host) if one.status in (*FAILING, NOTE, UNKNOWN)]
        expected = ["compilation-cache"] if host.host == "laptop" else []
        assert [one.name for one in loud] == expected


def test_what_two_checks_know_is_said_once() -> None:
    one = FlagRemark(
        code="FLAG409", severity="warning", name="NCCL_P2P_DISABLE", message="slow", advice="drop"
    )
    flags = CheckedFlags(names=("xla_foo",), release="0.10.2", remarks=(one,))
    host = replace(env(NCCL_P2P_DISABLE="1"), flags=flags)
    assert [it.name for it in run_checks(host) if it.status is WARNING] == ["nccl-environment"]


def test_settings_that_are_well_are_named_and_those_of_libtpu_are_not_called_well() -> None:
    flags = CheckedFlags(names=("xla_a",), libtpu=("xla_tpu_foo",), release="0.10.2")
    told = {one.status: one.found for one in asked(gpu_host(flags=flags), "flags")}
    assert told.keys() == {UNKNOWN, OK}
    assert told[UNKNOWN].endswith(" xla_tpu_foo")
    assert told[OK].endswith("jaxlib 0.10.2: xla_a")


@pytest.mark.parametrize(
    ("twelve", "thirteen", "driver", "dropped"),
    [
        ("0.9.0", "0.10.2", "580.95.05", "12"),
        ("0.10.2", "0.9.0", "580.95.05", "13"),
        ("0.10.2", "0.10.2", "580.95.05", "12"),
        ("0.10.2", "0.10.2", "570.1", "13"),
        ("0.9.0", "0.10.2", "570.1", "13"),
    ],
)
def test_of_two_plugins_one_verdict_says_which_to_keep(
    twelve: str, thirteen: str, driver: str, dropped: str
) -> None:
    host = packages(jax_cuda12_plugin=twelve, jax_cuda13_plugin=thirteen)
    host = replace(host, gpus=replace(host.gpus, driver=driver))
    (told,) = asked(host, "cuda-plugins")
    assert told.remedy == f"pip uninstall -y jax-cuda{dropped}-plugin jax-cuda{dropped}-pjrt"
    others = [one for one in asked(host, "versions") if one.status is ERROR]
    assert not any(f"jax-cuda{dropped}" in one.remedy for one in others)
    assert bool(others) is ("0.9.0" in (twelve if dropped == "13" else thirteen))


@pytest.mark.parametrize(
    ("mtu", "remedy"),
    [
        (1500, "mtu 9000   # configure the network first"),
        (1460, "mtu 8896   # configure the network first"),
        (1400, "ip -d link show dev ens3   # a tunnel"),
    ],
)
def test_a_tunnel_s_small_packets_are_not_to_be_enlarged_on_the_host(mtu: int, remedy: str) -> None:
    (told,) = asked(network(interfaces=(replace(SMALL[0], mtu=mtu),)), "mtu")
    assert remedy in told.remedy


def test_a_limit_that_can_t_be_raised_is_not_said_to_be_raised() -> None:
    (told,) = asked(machine(open_files=ResourceLimit(256, 256)), "open-files")
    assert told.found.startswith("up to 256 open files (")
    assert "sudo tee" in told.remedy


def test_cards_with_bridges_may_have_none() -> None:
    gpus = links("SYS", "PHB").gpus
    cards = tuple(replace(card, name="NVIDIA H100 NVL") for card in gpus.cards)
    assert worst(gpu_host(gpus=replace(gpus, cards=cards)), "gpu-topology") is OK


def test_a_laptop_is_told_that_gpu_checks_do_not_apply() -> None:
    told = {one.name: one for one in run_checks(laptop())}
    for name in ("driver", "gpu-state", "gpu-topology", "memory-fraction", "nccl-environment"):
        assert told[name].status is NONE
        assert told[name].found == "no NVIDIA driver"


def test_what_is_bad_says_what_is_wanted_and_what_to_type() -> None:
    for _, host, status in CASES:
        if status in (ERROR, WARNING, NOTE):
            bad = [one for one in run_checks(host) if one.status in (ERROR, WARNING, NOTE)]
            assert all(one.wanted and one.why and one.remedy for one in bad), bad


def test_tcp_remedies_are_commands_with_the_source_of_their_value() -> None:
    (told,) = asked(sysctl("net.ipv4.tcp_rmem", "4096 87380 212992"), "tcp-buffers")
    assert told.remedy == 'sudo sysctl -w net.ipv4.tcp_rmem="4096 540000 15728640"'
    assert told.source.endswith("maxtext/blob/bee0290/rto_setup.sh")
    assert told.found == "net.ipv4.tcp_rmem = 4096 87380 212992"


def test_the_fraction_that_is_advised_leaves_what_is_wanted() -> None:
    (told,) = asked(env(XLA_PYTHON_CLIENT_MEM_FRACTION="0.98"), "memory-fraction")
    assert "leaves 1.6 GiB" in told.found
    assert told.remedy == "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.90"


def test_older_kernels_are_told_the_route_s_retransmission_time() -> None:
    old = {name: text for name, text in SYSCTLS.items() if name != "net.ipv4.tcp_rto_min_us"}
    route = "default via 10.0.0.254 dev ens3"
    assert worst(network(sysctls=old, route=route), "tcp-behavior") is NOTE
    assert worst(network(sysctls=old, route=f"{route} rto_min lock 5ms"), "tcp-behavior") is OK


@pytest.mark.parametrize(
    ("line", "version", "takes"),
    [
        ("jaxlib<=0.10.2,>=0.10.1", "0.10.2", True),
        ("jaxlib<=0.10.2,>=0.10.1", "0.10.3", False),
        ("libtpu==0.0.42.*", "0.0.42.1", True),
        ("libtpu==0.0.42.*", "0.0.43", False),
        ("jax~=0.9.1", "0.9.4", True),
        ("jax~=0.9.1", "0.10.0", False),
        ("jax (>=0.8.1)", "0.8.1.dev2", True),
        ("jax!=0.9.0", "0.9", False),
        ("jax", "0.1", True),
        ("Jax_CUDA13.plugin[with-cuda]<2 ; extra == 'cuda'", "1.0", True),
    ],
)
def test_requirements_are_read_as_pip_reads_them(line: str, version: str, takes: bool) -> None:
    found = parse_requirement(line)
    assert found is not None
    assert found.takes(version) is takes


@pytest.mark.parametrize("line", ["jax>=1; python_version < '3.9'", "jax @ git+https://x", "=="])
def test_a_requirement_that_is_not_understood_is_not_judged(line: str) -> None:
    assert parse_requirement(line) is None


def test_every_check_is_documented_and_named_once() -> None:
    rules: tuple[DocumentedRule, ...] = (*CHECKS, hosts_differ)
    assert all(read_page(one).title for one in rules)
    assert [one.CODE for one in rules] == sorted({one.CODE for one in rules})
    assert len({one.NAME for one in rules}) == len(rules)


def test_how_verdicts_read(golden: Golden) -> None:
    """One part per verdict that is not well; the numbers and the status are asserted above."""
    parts: dict[str, str] = {}
    for name, host, _ in CASES:
        for one in asked(host, name):
            if one.status in FAILING or one.status is NOTE:
                parts[f"{one.code} {name} ({one.status.value})"] = f"{one.found}\n{one.remedy}\n"
    golden("verdicts.txt", "\n".join(f"## {title}\n\n{text}" for title, text in parts.items()))
