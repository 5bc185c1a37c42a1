"""A real cluster of Ray on this machine: a head and nodes of their own temporary directories.

As a program it starts the cluster, describes it in one line, and ends all of it when its stdin is
closed, so also when the tests were killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NODE = "CONTRACT_NODE"
"""What each node's processes find in their environment: n1, n2, ..."""
_ATTEMPTS = 5
_UP_S = 300.0
_DOWN_S = 60.0
_OBJECTS = 80_000_000
_PATIENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_health_check_failure_threshold": "8",
}
"""Busy machines are no dead ones."""
_LEAN = {
    "RAY_health_check_period_ms": "1000",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}
"""A node that is dead is seen soon, and no worker starts before it is needed."""


@dataclass(frozen=True)
class Cluster:
    """`raylets` are the processes whose death is a node's, by name.

    `address` is for drivers on one of its nodes, `client` for those elsewhere.
    """

    address: str
    client: str
    raylets: Mapping[str, int]
    ask: Callable[[str], dict[str, Any]]

    def kill_node(self, name: str) -> None:
        os.kill(self.raylets[name], signal.SIGKILL)

    def add_node(self) -> None:
        """One more, so that others find the cluster as large as it was."""
        self.ask("add")


@contextmanager
def cluster(nodes: int = 4, cpus: int = 2) -> Generator[Cluster]:
    """Up for as long as the context is.

    Ray gives a node 30 seconds, and looks for free ports some time before it takes them: on a
    busy machine it may not come up.
    """
    with contextlib.ExitStack() as stack:
        for attempt in range(_ATTEMPTS):
            with contextlib.ExitStack() as one:
                base = one.enter_context(
                    tempfile.TemporaryDirectory(prefix="cpray-", ignore_cleanup_errors=True)
                )
                made = one.enter_context(_running(base, nodes, cpus))
                if isinstance(made, Cluster):
                    stack.push(one.pop_all())
                    break
                if attempt + 1 == _ATTEMPTS:  # Ray gives a node 30 s, whatever else runs
                    pytest.skip(f"this machine is too busy for a cluster of Ray:\n{made}")
        else:
            raise AssertionError
        yield made


@contextmanager
def joined(to: Cluster, runtime_env: dict[str, Any]) -> Generator[None]:
    """This process as a driver whose workers have an environment of their own."""
    import ray

    ray.init(to.address, runtime_env=runtime_env, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _running(base: str, nodes: int, cpus: int) -> Generator[Cluster | str]:
    """The cluster, or why there is none."""
    log = Path(base) / "cluster.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, __file__, base, str(nodes), str(cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
            env={**os.environ, **_PATIENT, **_LEAN, "RAY_TMPDIR": base},
            cwd=base,
        ) as process,
    ):
        patience = threading.Timer(_UP_S, process.kill)
        patience.start()
        try:
            line = process.stdout.readline() if process.stdout else ""
            patience.cancel()
            yield _made(process, json.loads(line)) if line else log.read_text()[-2000:]
        finally:
            patience.cancel()
            _end(process, base)


def _made(process: subprocess.Popen[str], facts: dict[str, Any]) -> Cluster:
    raylets: dict[str, int] = dict(facts["raylets"])

    def ask(what: str) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(what + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        raylets.update(answer["raylets"])
        return answer

    return Cluster(facts["address"], facts["client"], raylets, ask)


def _end(process: subprocess.Popen[str], base: str) -> None:
    """End what carries this cluster's directory in its environment or command line; no other."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_DOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
    until = time.monotonic() + _DOWN_S
    while (left := _carriers(base)) and time.monotonic() < until:
        for number in left:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.2)


def _carriers(base: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "environ").read_bytes() + (path / "cmdline").read_bytes()
            if base.encode() in words and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


def _serve(base: str, nodes: int, cpus: int) -> None:
    """The program."""
    from ray.cluster_utils import Cluster as RayCluster

    (Path(base) / "ray").mkdir(exist_ok=True)
    client_port = _free_port()
    made = RayCluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": _OBJECTS,
            "include_dashboard": False,
            "ray_client_server_port": client_port,
        },
    )
    raylets: dict[str, int] = {}

    def add() -> None:
        name = f"n{len(raylets) + 1}"
        place = Path(base) / f"tmp-{name}"
        place.mkdir()
        os.environ.update({"TMPDIR": str(place), NODE: name})
        node: Any = made.add_node(wait=True, num_cpus=cpus, object_store_memory=_OBJECTS)
        (raylet,) = node.all_processes["raylet"]
        raylets[name] = raylet.process.pid

    for _ in range(nodes):
        add()
    about = {"address": made.address, "client": f"ray://127.0.0.1:{client_port}"}
    print(json.dumps({**about, "raylets": raylets}), flush=True)
    for line in sys.stdin:
        if line.strip() == "add":
            add()
        print(json.dumps({"raylets": raylets}), flush=True)
    made.shutdown()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
