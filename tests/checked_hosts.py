"""Hosts for the doctor's tests: one GPU host that is well, and small changes to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from counterpoint.doctor.checks import CHECKS, run_checks
from counterpoint.doctor.facts import (
    CheckedFlags,
    GpuState,
    HostFacts,
    HostGpus,
    HostMachine,
    HostNetwork,
    InstalledPackages,
    Interface,
    KernelClock,
    RdmaPort,
    ResourceLimit,
    RunDirectory,
)
from counterpoint.doctor.result import CheckResult, Status

GIB: Final = 2**30
SYSCTLS: Final = {
    "net.ipv4.tcp_rmem": "4096\t540000\t15728640",
    "net.ipv4.tcp_wmem": "4096\t262144\t67108864",
    "net.core.rmem_max": "67108864",
    "net.core.wmem_max": "67108864",
    "net.core.optmem_max": "131072",
    "net.core.somaxconn": "4096",
    "net.core.netdev_max_backlog": "250000",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_congestion_control": "bbr",
    "net.ipv4.tcp_window_scaling": "1",
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_max_syn_backlog": "4096",
    "net.ipv4.tcp_rto_min_us": "5000",
    "kernel.numa_balancing": "0",
}
SOFTWARE: Final = InstalledPackages(
    python="3.12.4",
    packages={
        "jax": "0.10.2",
        "jaxlib": "0.10.2",
        "jax-cuda13-plugin": "0.10.2",
        "jax-cuda13-pjrt": "0.10.2",
        "nvidia-cudnn-cu13": "9.14.0",
        "flax": "0.12.0",
    },
    requires={
        "jax": ("jaxlib<=0.10.2,>=0.10.1", 'jaxlib==0.10.1; extra == "ci"', "opt_einsum"),
        "jax-cuda13-plugin": (
            "jax-cuda13-pjrt==0.10.2",
            'nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"',
        ),
        "flax": ("jax>=0.8.1",),
    },
)


def gpu_host(**changes: Any) -> HostFacts:  # noqa: ANN401
    """One of four hosts with eight GPUs, InfiniBand, and nothing wrong."""
    cards = tuple(
        GpuState(
            index=index,
            name="NVIDIA H100 80GB HBM3",
            persistence=True,
            ecc=True,
            memory_bytes=80 * GIB,
        )
        for index in range(8)
    )
    links = tuple((one, other, "NV18") for other in range(8) for one in range(other))
    facts = HostFacts(
        host="node0",
        hosts=4,
        environment={
            "JAX_COMPILATION_CACHE_DIR": "/shared/cache",
            "NCCL_SOCKET_IFNAME": "ens",
            "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9",
        },
        software=SOFTWARE,
        flags=CheckedFlags(names=("xla_a", "xla_b", "NCCL_ALGO"), release="0.10.2", probed=True),
        network=HostNetwork(
            sysctls=SYSCTLS,
            interfaces=(
                Interface(name="lo", up=True, physical=False, mtu=65536),
                Interface(name="ens3", up=True, mtu=8896, speed_mbps=100_000),
            ),
            default=("ens3",),
            rdma=(RdmaPort(device="mlx5_0", port=1, active=True),),
            addresses=("10.0.0.1",),
        ),
        gpus=HostGpus(driver="580.95.05", cards=cards, links=links, admin_only=False),
        machine=HostMachine(
            open_files=ResourceLimit(65536, 65536),
            locked=ResourceLimit(None, None),
            shared_bytes=64 * GIB,
            shared_free=64 * GIB,
            governors={"performance": 96},
            numa_nodes=2,
            cpus=96,
            cpus_allowed=96,
            clock=KernelClock(synchronized=True, error_us=400),
        ),
        places=(
            RunDirectory(path="/home/me", named_by="", filesystem="nfs4", free_bytes=900 * GIB),
            RunDirectory(
                path="/shared/cache",
                named_by="JAX_COMPILATION_CACHE_DIR",
                filesystem="lustre",
                free_bytes=900 * GIB,
            ),
        ),
    )
    return replace(facts, **changes)


def laptop(**changes: Any) -> HostFacts:  # noqa: ANN401
    """A machine with a CPU, a jax, and nothing else."""
    packages = {"jax": "0.10.2", "jaxlib": "0.10.2"}
    facts = HostFacts(
        host="laptop",
        software=replace(SOFTWARE, packages=packages, requires={}),
        network=HostNetwork(addresses=("127.0.1.1",)),
        machine=HostMachine(
            open_files=ResourceLimit(65536, 65536),
            shared_bytes=8 * GIB,
            shared_free=8 * GIB,
            clock=KernelClock(synchronized=True),
        ),
        places=(RunDirectory(path="/home/me", named_by="", free_bytes=90 * GIB),),
    )
    return replace(facts, **changes)


def with_environment(facts: HostFacts, **variables: str) -> HostFacts:
    """The same host with more variables; an empty one takes it away."""
    merged = {**facts.environment, **variables}
    return replace(facts, environment={name: text for name, text in merged.items() if text})


def asked(facts: HostFacts, name: str) -> tuple[CheckResult, ...]:
    """What one check says."""
    return tuple(one for one in run_checks(facts, CHECKS) if one.name == name)


def worst(facts: HostFacts, name: str) -> Status:
    """How bad it is by that check."""
    order = list(Status)
    return min((one.status for one in asked(facts, name)), key=order.index)
