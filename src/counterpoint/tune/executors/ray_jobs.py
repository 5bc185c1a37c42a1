"""The jobs of a cluster of Ray, over HTTP: submitted, looked after, stopped, and what they left."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import StoppedWaiting
from counterpoint.tune.executors.ray_wire import PLACE, Told, as_word, last

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

HERE: Final = "http://127.0.0.1:8265"
"""Where Ray's dashboard listens unless it is told otherwise."""
_OVERRIDES: Final = "RAY_API_SERVER_ADDRESS"
_DRIVER: Final = "counterpoint.tune.executors.ray_driver"
_TALKATIVE: Final = ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging")
"""They tell of each upload."""
_NOT_YET: Final = "No available agent"
"""What takes jobs comes up some time after the dashboard."""
_COME_UP_S: Final = 60.0
_LOOK_S: Final = 0.3
_STOP_S: Final = 120.0
_OPEN_S: Final = 600
_PIECE: Final = 1 << 20


class Jobs:
    """The Job API of one cluster."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._made: JobSubmissionClient | None = None

    def submit(
        self,
        name: str,
        what: Mapping[str, object],
        environment: Mapping[str, object],
        metadata: Mapping[str, str],
    ) -> None:
        """Start a driver of ours. A UsageError where Ray refuses it."""
        until = time.monotonic() + _COME_UP_S
        while True:
            try:
                self._client.submit_job(
                    entrypoint=f"python -m {_DRIVER} {as_word(what)}",
                    submission_id=name,
                    runtime_env=dict(environment),
                    metadata={"counterpoint": "tune", **metadata},
                )
            except (RuntimeError, ValueError, ConnectionError) as failure:
                if _NOT_YET in str(failure) and time.monotonic() < until:
                    time.sleep(_LOOK_S)
                    continue
                raise _refused(self.address, failure) from None
            return

    def state(self, name: str) -> tuple[bool, str]:
        """Whether a job has ended, and what Ray says of it."""
        about = self._client.get_job_info(name)
        return about.status.is_terminal(), f"{about.status}: {about.message or ''}"

    def modules(self, name: str) -> object:
        """Under which names Ray keeps the modules that were uploaded with a job."""
        return (self._client.get_job_info(name).runtime_env or {}).get("py_modules", [])

    def log(self, name: str) -> str:
        """All that a driver has printed."""
        return str(self._client.get_job_logs(name))

    def said(self, name: str, *kinds: str) -> Told | None:
        """The last thing of these kinds that a driver has said."""
        return last(self.log(name), *kinds)

    def wait_for(
        self,
        name: str,
        kinds: tuple[str, ...],
        hear: Callable[[Told], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Told | None:
        """Wait until a driver says one of these; None where it ends without.

        StoppedWaiting where `stopped` says so first.
        """
        before: Told | None = None
        while True:
            over, _ = self.state(name)
            log = self.log(name)
            if (found := last(log, *kinds)) is not None:
                return found
            if over:
                return None
            if stopped():
                raise StoppedWaiting("stopped while it waited for nodes of the cluster")
            news = last(log, "waiting")
            if hear is not None and news is not None and news != before:
                hear(news)
                before = news
            time.sleep(_LOOK_S)

    def metadata(self, name: str) -> Mapping[str, str]:
        """What a job was submitted with."""
        return self._client.get_job_info(name).metadata or {}

    def of(self, identity: str) -> list[str]:
        """The jobs that belong to a gang or an allocation."""
        return [
            str(it.submission_id)
            for it in self._client.list_jobs()
            if it.submission_id and identity in (it.metadata or {}).values()
        ]

    def stop(self, names: list[str]) -> None:
        """Stop jobs, and return when they have ended."""
        left = [name for name in names if not self.state(name)[0]]
        for name in left:
            self._client.stop_job(name)
        until = time.monotonic() + _STOP_S
        while left and time.monotonic() < until:
            time.sleep(_LOOK_S)
            left = [name for name in left if not self.state(name)[0]]
        if left:
            raise UsageError(
                f"Ray does not stop {', '.join(left)}",
                why=f"it was asked to {_STOP_S:g} s ago",
                next=f"ray job stop --address {self.address} {left[0]}",
            )

    def fetch(self, told: Told, allocation: str, into: Path) -> None:
        """Bring a file here that a driver has packed. An OSError where it does not come whole."""
        import requests

        found = hashlib.sha256()
        asked = {
            "node_id": told["node"],
            "filename": f"{PLACE}/{allocation}/{told['file']}",
            "lines": -1,
            "timeout": _OPEN_S,
        }
        client: Any = self._client
        with requests.get(
            f"{client.get_address()}/api/v0/logs/file",
            params=asked,  # pyright: ignore[reportArgumentType]
            headers=client._headers,  # noqa: SLF001  # a cluster may ask for a token
            cookies=client._cookies,  # noqa: SLF001
            verify=client._verify,  # noqa: SLF001
            stream=True,
            timeout=_OPEN_S,
        ) as answer:
            answer.raise_for_status()
            with into.open("wb") as file:
                for piece in answer.iter_content(chunk_size=_PIECE):
                    found.update(piece)
                    file.write(piece)
        if found.hexdigest() != told["sha256"]:
            size = into.stat().st_size
            raise OSError(f"{size} bytes came of {told['bytes']}, or others than were sent")

    @property
    def _client(self) -> JobSubmissionClient:
        if self._made is None:
            self._made = _connect(self.address)
        return self._made


def _refused(address: str, failure: Exception) -> UsageError:
    large = "size" in str(failure)
    return UsageError(
        f"Ray at {address} takes no job: {_short(failure)}",
        why="the working directory travels with it" if large else None,
        next="put large files elsewhere, or have this directory on all nodes"
        if large
        else f"ray job list --address {address}",
    )


def _connect(address: str) -> JobSubmissionClient:
    os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError:
        raise UsageError(
            "--executor ray: Ray is not installed here", next="pip install 'counterpoint[ray]'"
        ) from None
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        with _heard(address):
            return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError, ValueError) as failure:
        raise UsageError(
            f"no cluster of Ray answers at {address}: {_short(failure)}",
            why="its dashboard has to be reachable: jobs go through it",
            next="ray start --head",
        ) from None


@contextmanager
def _heard(address: str) -> Generator[None]:
    """Ray takes the address in the environment, where there is one, for any that it is given."""
    before = os.environ.get(_OVERRIDES)
    os.environ[_OVERRIDES] = address
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OVERRIDES]
        else:
            os.environ[_OVERRIDES] = before


def _short(failure: Exception) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(failure).__name__
