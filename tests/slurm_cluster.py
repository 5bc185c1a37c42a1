"""A real Slurm of four nodes on this machine, which nobody else sees.

Its daemons (munged, slurmctld, four slurmds) live in a directory of their own, with a key, a socket
and ports of their own; SLURM_CONF leads to them. They end with whoever started them, also if that
is killed: a supervisor stands around each. Nodes are called 127.0.0.1 to 127.0.0.4, so that what
looks for a node by its name, as JAX does for its coordinator, finds this machine without
/etc/hosts.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from counterpoint.tune.executors.process_supervisor import start_supervised, supervised

NODES: Final = tuple(f"127.0.0.{number}" for number in range(1, 5))
_LIMIT_S: Final = 180.0
"""Machines are busy; a Slurm that takes longer is broken."""
_SBIN: Final = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_TOOLS: Final = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol", "squeue")

CONF: Final = """
ClusterName=counterpoint
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={control}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={home}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MessageTimeout=60
SlurmdTimeout=600
KillWait=10
UnkillableStepTimeout=120
PropagateResourceLimits=NONE
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
StateSaveLocation={home}/state
SlurmctldPidFile={home}/slurmctld.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdPidFile={home}/slurmd-%n.pid
SlurmdLogFile={home}/slurmd-%n.log
SlurmdSpoolDir={home}/spool-%n
GresTypes=gpu
{nodes}
PartitionName=usual Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10
"""
NODE: Final = (
    "NodeName={name} NodeHostName=localhost NodeAddr=127.0.0.1 Port={port}"
    " CPUs=2 RealMemory=1000 Gres=gpu:2 State=UNKNOWN"
)


def why_no_slurm() -> str | None:
    """Why there can be no cluster here, or None."""
    missing = [tool for tool in _TOOLS if _tool(tool) is None]
    if missing:
        return f"there is no {missing[0]}: make tools (Debian: apt-get install slurm-wlm munge)"
    return None


@dataclass(frozen=True)
class SlurmCluster:
    """A cluster that runs; `variables` lead to it."""

    home: Path
    supervisors: list[subprocess.Popen[bytes]] = field(
        default_factory=list[subprocess.Popen[bytes]]
    )

    @property
    def variables(self) -> Mapping[str, str]:
        return {"SLURM_CONF": str(self.home / "slurm.conf")}

    def ask(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def jobs(self) -> list[str]:
        """Numbers of the jobs that wait or run."""
        return self.ask("squeue", "-h", "-o", "%i").split()

    def make_idle(self) -> None:
        """Cancel what is left of a test, and bring all nodes back."""
        until = time.monotonic() + _LIMIT_S
        while True:
            for job in self.jobs():
                with suppress(RuntimeError):
                    self.ask("scancel", job)
            states = self.ask("sinfo", "-h", "-N", "-p", "usual", "-o", "%T").split()
            if not self.jobs() and states == ["idle"] * len(NODES):
                return
            if time.monotonic() > until:
                raise RuntimeError(f"{states}\n{_logs(self.home)}")
            for node in NODES:
                with suppress(RuntimeError):
                    self.ask("scontrol", "update", f"nodename={node}", "state=resume")
            time.sleep(0.2)


@contextmanager
def slurm_cluster() -> Generator[SlurmCluster]:
    """Start one, and end it whatever happens. Its directory's name is short: sockets want that."""
    with TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as home:
        cluster = SlurmCluster(Path(home))
        try:
            _start(cluster)
            yield cluster
        finally:
            for supervisor in reversed(cluster.supervisors):
                supervisor.terminate()
            for supervisor in cluster.supervisors:
                supervisor.wait(_LIMIT_S)


def _start(cluster: SlurmCluster) -> None:
    home = cluster.home
    ports = _free_ports(1 + len(NODES))
    home.chmod(0o755)
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (home / name).mkdir()
    (home / "munge.key").write_bytes(os.urandom(128))
    (home / "munge.key").chmod(0o400)
    nodes = [NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True)]
    text = CONF.format(home=home, user=getpass.getuser(), control=ports[0], nodes="\n".join(nodes))
    (home / "slurm.conf").write_text(text)
    gpus = [home / f"gpu{number}" for number in range(2)]
    for gpu in gpus:
        gpu.touch()
    (home / "gres.conf").write_text("".join(f"Name=gpu File={gpu}\n" for gpu in gpus))
    (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    munge = ("--force", f"--socket={home}/munge.socket", f"--key-file={home}/munge.key")
    files = (f"--{name}-file={home}/munge.{name}" for name in ("log", "pid", "seed"))
    _daemon(cluster, "munged", "--foreground", *munge, *files)
    _wait(cluster, "munged", (home / "munge.socket").exists)
    conf = ("-D", "-f", str(home / "slurm.conf"))
    _daemon(cluster, "slurmctld", "-c", *conf)
    for node in NODES:
        _daemon(cluster, "slurmd", "-N", node, *conf)
    _wait(cluster, "slurmctld", lambda: _are_idle(cluster))


def _daemon(cluster: SlurmCluster, name: str, *options: str) -> None:
    tool = _tool(name)
    assert tool is not None
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
    with (cluster.home / f"{name}.out").open("ab") as out:
        command = supervised((tool, *options), with_tuner=True, stop="15,9")
        cluster.supervisors.append(start_supervised(command, {**plain, **cluster.variables}, out))


def _are_idle(cluster: SlurmCluster) -> bool:
    try:
        states = cluster.ask("sinfo", "-h", "-N", "-p", "usual", "-o", "%T").split()
    except RuntimeError:
        return False
    return states == ["idle"] * len(NODES)


def _wait(cluster: SlurmCluster, who: str, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + _LIMIT_S
    while not ready():
        dead = [supervisor for supervisor in cluster.supervisors if supervisor.poll() is not None]
        if dead or time.monotonic() > until:
            raise RuntimeError(f"{who} is not up\n{_logs(cluster.home)}")
        time.sleep(0.1)


def _logs(home: Path) -> str:
    files: Sequence[Path] = sorted([*home.glob("*.log"), *home.glob("*.out")])
    return "\n".join(f"== {file.name}\n{file.read_text()[-2000:]}" for file in files)


def _tool(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_SBIN]))


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has right now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
