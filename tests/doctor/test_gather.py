"""Facts from a made-up /proc and /sys, and from programs that answer as nvidia-smi does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from counterpoint.doctor.checks import run_checks
from counterpoint.doctor.facts import HostFacts, KernelClock
from counterpoint.doctor.gather.gather import gather
from counterpoint.doctor.gather.machine import kernel_clock
from counterpoint.doctor.gather.tools import run_tool
from counterpoint.doctor.result import Status

FILES = {
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "proc/sys/net/core/somaxconn": "4096\n",
    "proc/net/route": "Iface\tDestination\tGateway\nens3\t00000000\t0100000A\n",
    "proc/mounts": "/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
    "580.95.05  Release Build\n",
    "proc/driver/nvidia/params": "EnableMSI: 1\nRmProfilingAdminOnly: 1\n",
    "proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000\n",
    "proc/1/cgroup": "0::/kubepods/pod1\n",
    "proc/77/comm": "nv-hostengine\n",
    "proc/77/cmdline": "/usr/bin/nv-hostengine\0-n\0",
    "sys/class/net/ens3/operstate": "up\n",
    "sys/class/net/ens3/mtu": "8896\n",
    "sys/class/net/ens3/speed": "200000\n",
    "sys/class/net/ens3/flags": "0x1003\n",
    "sys/class/net/ens3/device/vendor": "0x15b3\n",
    "sys/class/net/docker0/operstate": "down\n",
    "sys/class/net/docker0/mtu": "1500\n",
    "sys/class/net/docker0/speed": "-1\n",
    "sys/class/net/docker0/flags": "0x1003\n",
    "sys/class/net/lo/operstate": "unknown\n",
    "sys/class/net/lo/flags": "0x9\n",
    "sys/class/net/bonding_masters": "bond0\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/node/node0/cpulist": "0\n",
    "sys/devices/system/node/node1/cpulist": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}
LISTED = (
    "0, NVIDIA H100 80GB HBM3, 580.95.05, Enabled, Enabled, 81559, 0x0000000000000001\n"
    "1, NVIDIA H100 80GB HBM3, 580.95.05, Disabled, Enabled, 81559, 0x0000000000000060\n"
    "2, NVIDIA H100 80GB HBM3, 580.95.05, [N/A], [N/A], [N/A], [N/A]\n"
)
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\tPIX\t0-47\n"
    "GPU1\tNV18\t X \tSYS\tNODE\t0-47\n"
    "GPU2\tSYS\tSYS\t X \tNODE\t0-47\n"
    "NIC0\tPIX\tNODE\tNODE\t X \n"
)


def laid_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def answering(words: Sequence[str]) -> str | None:
    if words[0] == "nvidia-smi":
        return TOPOLOGY if "topo" in words else LISTED
    return "default via 10.0.0.1 dev ens3 proto dhcp\n" if words[0] == "ip" else run_tool(words)


def silent(words: Sequence[str]) -> str | None:
    del words


def gathered(root: Path, files: dict[str, str] = FILES, **environment: str) -> HostFacts:
    return gather(
        environment,
        root=laid_out(root, files),
        ask=answering if files is FILES else silent,
        python=Path(sys.executable),
        probe=False,
        clock=KernelClock(synchronized=True),
    )


def test_the_network_is_read(tmp_path: Path) -> None:
    network = gathered(tmp_path).network
    assert network.sysctls["net.ipv4.tcp_rmem"].split()[-1] == "6291456"
    ens3 = next(one for one in network.interfaces if one.name == "ens3")
    docker = next(one for one in network.interfaces if one.name == "docker0")
    assert (ens3.up, ens3.physical, ens3.mtu, ens3.speed_mbps) == (True, True, 8896, 200_000)
    assert (docker.up, docker.physical, docker.speed_mbps) == (False, False, None)
    assert [one.name for one in network.interfaces] == ["docker0", "ens3", "lo"]
    assert network.default == ("ens3",)
    assert network.route == "default via 10.0.0.1 dev ens3 proto dhcp"
    assert [(one.device, one.port, one.active) for one in network.rdma] == [("mlx5_0", 1, True)]


def test_gpus_are_read_and_what_is_not_told_is_not_guessed(tmp_path: Path) -> None:
    gpus = gathered(tmp_path).gpus
    assert (gpus.driver, gpus.admin_only) == ("580.95.05", True)
    assert [card.persistence for card in gpus.cards] == [True, False, None]
    assert [card.memory_bytes for card in gpus.cards] == [81559 * 2**20] * 2 + [None]
    assert gpus.cards[0].slowed_by == ()
    assert gpus.cards[1].slowed_by == ("heat (software)", "heat (hardware)")
    assert gpus.links == ((0, 1, "NV18"), (0, 2, "SYS"), (1, 2, "SYS"))


def test_the_machine_is_read(tmp_path: Path) -> None:
    facts = gathered(tmp_path)
    machine = facts.machine
    assert (machine.governors, machine.frequency_driver) == ({"powersave": 2}, "acpi-cpufreq")
    assert (machine.numa_nodes, machine.huge_pages, machine.container) == (2, "madvise", True)
    assert machine.shared_bytes is None
    assert not facts.privileged
    assert "nv-hostengine" in facts.processes


def test_an_empty_root_gives_facts_and_no_check_fails(tmp_path: Path) -> None:
    facts = gathered(tmp_path, {})
    told = {one.name: one.status for one in run_checks(facts)}
    assert told["shared-memory"] is Status.UNKNOWN
    assert told["gpu-state"] is Status.NOT_APPLICABLE
    assert not {Status.ERROR, Status.WARNING} & set(told.values())


@pytest.mark.parametrize("text", ["", "nonsense", "-1", "\0\0", "9" * 400])
def test_odd_files_are_passed_over(tmp_path: Path, text: str) -> None:
    odd = dict.fromkeys(FILES, text)
    assert run_checks(gathered(tmp_path, odd))


def test_launchers_tell_how_many_hosts_there_are(tmp_path: Path) -> None:
    slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "1"}
    slurm |= {"SLURM_JOB_ID": "7", "SLURM_NNODES": "4", "SLURM_STEP_TASKS_PER_NODE": "4(x4)"}
    facts = gathered(tmp_path, {}, **slurm)
    assert (facts.hosts, facts.ranks_here) == (4, 4)
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "6"}
    mpi |= {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    facts = gathered(tmp_path, {}, **mpi)
    assert (facts.hosts, facts.ranks_here) == (3, 2)


def test_a_batch_script_of_slurm_knows_the_job_s_hosts_before_its_first_step(
    tmp_path: Path,
) -> None:
    facts = gathered(tmp_path, {}, SLURM_JOB_NUM_NODES="3", SLURM_NNODES="3", SLURM_PROCID="0")
    assert (facts.hosts, facts.ranks_here) == (3, 1)


def test_a_slice_of_tpus_tells_its_hosts(tmp_path: Path) -> None:
    facts = gathered(tmp_path, {}, TPU_WORKER_HOSTNAMES="t0,t1,t2,t3", MEGASCALE_NUM_SLICES="2")
    assert (facts.hosts, facts.dcn) == (4, True)


def test_only_settings_are_kept_of_the_environment(tmp_path: Path) -> None:
    given = {"XLA_FLAGS": "", "NCCL_DEBUG": "WARN", "HOME": "/root", "JAX_SECRET_TOKEN": "x"}
    assert set(gathered(tmp_path, {}, **given).environment) == {"XLA_FLAGS", "NCCL_DEBUG"}


def test_flags_in_a_file_are_checked_too(tmp_path: Path) -> None:
    flags = tmp_path / "flags.txt"
    flags.write_text("--xla_no_such_flag=1")
    facts = gathered(tmp_path, {}, XLA_FLAGS=str(flags))
    told = next(one for one in run_checks(facts) if one.name == "flags")
    assert told.status is Status.ERROR
    assert "xla_no_such_flag" in told.found


def test_flags_of_libtpu_are_compared_with_a_release_of_it(tmp_path: Path) -> None:
    known = "--xla_tpu_enable_async_collective_fusion=true"
    facts = gathered(tmp_path, {}, LIBTPU_INIT_ARGS=known)
    told = [one.status for one in run_checks(facts) if one.name == "flags"]
    assert told == [Status.OK]
    facts = gathered(tmp_path, {}, LIBTPU_INIT_ARGS="--xla_tpu_no_such_flag=1 --deepsea_x=1")
    told = {one.status: one.found for one in run_checks(facts) if one.name == "flags"}
    assert told.keys() == {Status.ERROR, Status.UNKNOWN}
    assert told[Status.UNKNOWN].endswith(" deepsea_x")


def test_a_flag_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    facts = gathered(tmp_path, {}, XLA_FLAGS=str(tmp_path / "none.txt"))
    assert next(one for one in run_checks(facts) if one.name == "flags").status in (
        Status.ERROR,
        Status.UNKNOWN,
    )


def test_a_cache_that_can_t_be_made_is_told(tmp_path: Path) -> None:
    facts = gathered(tmp_path, {}, JAX_COMPILATION_CACHE_DIR="/proc/none/cache")
    told = next(one for one in run_checks(facts) if one.name == "compilation-cache")
    assert (told.status, "is not writable" in told.found) == (Status.WARNING, True)


def test_a_cache_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    facts = gathered(tmp_path, {}, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"))
    told = next(one for one in run_checks(facts) if one.name == "compilation-cache")
    assert told.status is Status.WARNING


def test_libraries_that_hide_the_wheels_are_found(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("libcudnn.so.9", "libnccl-net.so", "libc.so.6"):
        (tmp_path / "lib" / name).write_text("")
    facts = gathered(tmp_path, {}, LD_LIBRARY_PATH=f"{tmp_path / 'lib'}:/none")
    assert [Path(one).name for one in facts.software.shadowing] == ["libcudnn.so.9"]


def test_the_kernel_is_asked_for_its_clock() -> None:
    clock = kernel_clock()
    assert clock.synchronized is not None or clock.why_not


def test_a_program_that_is_not_there_or_fails_says_nothing() -> None:
    assert run_tool(("no-such-program",)) is None
    assert run_tool((sys.executable, "-c", "raise SystemExit(3)")) is None
    assert run_tool((sys.executable, "-c", "print('\\xff')")) is not None
