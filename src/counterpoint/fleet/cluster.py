"""Tasks on a Ray cluster: each on the node that Ray chooses, which reads the profile itself."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from counterpoint import __version__
from counterpoint.core import UsageError
from counterpoint.fleet.tasks import ATTEMPTS, EXTRACTS, Order, Reduction, reduce_profile

__all__ = ["RayExecutor"]

_REACH_S: Final = 10.0
_CLIENT_PORT: Final = 10001
_AHEAD: Final = 4
"""Tasks per CPU that are handed to Ray at a time: their answers wait in its memory."""


class RayExecutor:
    """The cluster at an address, or the one that is around."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS") or "auto"
        self.retried = 0
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            raise UsageError(
                "Ray is not installed", next="pip install 'counterpoint[ray]'"
            ) from None

    def run(
        self, names: Sequence[str], memory_bytes: int, order: Order = EXTRACTS
    ) -> Generator[Reduction]:
        """Yield the outcome of each task, in any order."""
        ray = self._ray
        # Ray writes of dead workers to stdout, where the answer belongs.
        with redirect_stdout(sys.stderr), self._connected():
            # Tasks that are lost are run again here, where they are counted.
            task = ray.remote(num_cpus=1, max_retries=0)(reduce_profile)
            ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
            waiting = [(name, 1) for name in reversed(names)]
            running: dict[Any, tuple[str, int]] = {}
            while waiting or running:
                while waiting and len(running) < ahead:
                    name, attempt = waiting.pop()
                    running[task.remote(name, memory_bytes, order)] = (name, attempt)
                (done, *_), _ = ray.wait([*running], num_returns=1)
                name, attempt = running.pop(done)
                try:
                    yield ray.get(done)
                except ray.exceptions.RayError as lost:
                    if attempt < ATTEMPTS:
                        self.retried += 1
                        waiting.append((name, attempt + 1))
                        continue
                    reason = str(lost).strip().splitlines()[0]
                    what = f"{name}: its task was lost {ATTEMPTS} times, at last: {reason}"
                    yield Reduction(name=name, failure=(what, None, None))

    @contextmanager
    def _connected(self) -> Generator[None]:
        ray = self._ray
        if ray.is_initialized():
            yield
            return
        self._connect()
        try:
            self._check_version()
            yield
        finally:
            ray.shutdown()

    def _connect(self) -> None:
        """Join the cluster. Ray would try an address for minutes, and then end this process."""
        ray, handler = self._ray, signal.getsignal(signal.SIGTERM)
        try:
            if self.address != "auto":
                socket.create_connection(_host_and_port(self.address), _REACH_S).close()
            ray.init(address=self.address, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as failure:
            ray.shutdown()
            raise UsageError(
                f"no Ray cluster at {self.address}: {' '.join(str(failure).split())[:300]}",
                why="--ray-address or RAY_ADDRESS names one; for tokens, RAY_AUTH_MODE=token",
                next="ray start --head",
            ) from None
        finally:  # Ray replaces the handler by one that exits at once
            if handler is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def _check_version(self) -> None:
        ray = self._ray
        try:
            version = ray.get(ray.remote(num_cpus=0, max_retries=1)(installed_version).remote())
        except ray.exceptions.RayError as failure:
            raise UsageError(
                "the nodes of the Ray cluster can't run Counterpoint",
                why=str(failure).strip().splitlines()[-1],
                next="pip install counterpoint in the Python of each node",
            ) from None
        if version != __version__:
            raise UsageError(f"the Ray cluster has Counterpoint {version}, this is {__version__}")


def installed_version() -> str:
    """Return the version of the package where it is called."""
    return __version__


def _host_and_port(address: str) -> tuple[str | None, int]:
    parts = urlsplit(address if "://" in address else f"//{address}")
    return parts.hostname, parts.port or _CLIENT_PORT
