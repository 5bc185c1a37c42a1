"""Writes small SQLite files like those of `nsys export`, as tests need them.

Two shapes: OLD has the columns of schema 3.0, texts spelled out and no CUDA graphs; NEW those of
3.25, with registered texts, a named NVTX domain and CUDA graphs.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, Self

OLD: Final = "3.0"
NEW: Final = "3.25"
PID: Final = (1 << 48) + (100 << 24)
DOMAIN: Final = 1

_WORK = "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, \
contextId INTEGER NOT NULL, {green} streamId INTEGER NOT NULL, correlationId INTEGER, \
globalPid INTEGER"

_TABLES: Final = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT NOT NULL, nameEnum INTEGER, value TEXT NOT NULL",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, memoryBandwidth INTEGER, chipName TEXT",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": _WORK
    + ", demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL{node}",
    "CUPTI_ACTIVITY_KIND_MEMCPY": _WORK + ", bytes INTEGER, copyKind INTEGER NOT NULL{node}",
    "CUPTI_ACTIVITY_KIND_MEMSET": _WORK + ", value INTEGER, bytes INTEGER{node}",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass"
    " INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,"
    " globalTid INTEGER, textId INTEGER, domainId INTEGER",
}

_NEW_TABLES: Final = {
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _WORK + ", graphId INTEGER, graphExecId INTEGER",
    "CUDA_GRAPH_NODE_EVENTS": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER,"
    " graphNodeId INTEGER, originalGraphNodeId INTEGER",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, severity INTEGER, text TEXT, globalPid INTEGER",
}


def thread(number: int, pid: int = PID) -> int:
    """The serialised id of a thread."""
    return pid + number


class Export:
    """An export being written; a context manager that saves it."""

    def __init__(self, path: Path, schema: str = NEW) -> None:
        self.path = path
        self.schema = schema
        self.new = schema == NEW
        self._db = sqlite3.connect(path)
        self._ids: dict[str, int] = {}
        green, node = ("greenContextId INTEGER,", ", graphNodeId INTEGER") if self.new else ("", "")
        for name, columns in (_TABLES | (_NEW_TABLES if self.new else {})).items():
            self._db.execute(f"CREATE TABLE {name} ({columns.format(green=green, node=node)})")
        self.insert("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value=f"{schema}.0")
        self.insert("TARGET_INFO_SYSTEM_ENV", name="Hostname", nameEnum=619, value="node7")
        if self.new:
            self.insert(
                "NVTX_EVENTS", start=0, eventType=75, text="TSL", globalTid=PID, domainId=DOMAIN
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.commit()
        self._db.close()

    def insert(self, table: str, **values: object) -> None:
        """Add a row; columns that the schema's table lacks are left out."""
        known = {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}
        given = {name: value for name, value in values.items() if name in known}
        marks = ", ".join("?" * len(given))
        into = f"INSERT INTO {table} ({', '.join(given)})"
        self._db.execute(f"{into} VALUES ({marks})", tuple(given.values()))

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> None:
        """Change the file by hand."""
        self._db.execute(statement, values)

    def text(self, value: str) -> int:
        """The id of a registered text."""
        if value not in self._ids:
            self._ids[value] = len(self._ids) + 10
            self.insert("StringIds", id=self._ids[value], value=value)
        return self._ids[value]

    def range(self, tid: int, start: int, end: int | None, text: str, kind: int = 59) -> None:
        """An NVTX range of XLA's domain."""
        if self.new:
            spelled, registered = None, self.text(text)
        else:
            spelled, registered = f"TSL:{text}", None
        self.insert(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=spelled,
            globalTid=tid,
            textId=registered,
            domainId=DOMAIN if self.new else 0,
        )

    def module(self, tid: int, start: int, end: int | None, name: str, program: int) -> None:
        """An execution of a module."""
        self.range(tid, start, end, f"XlaModule:#hlo_module={name},program_id={program}#")

    def thunk(self, tid: int, start: int, end: int | None, op: str, scope: str = "") -> None:
        """An execution of a thunk."""
        named = f"name={scope}," if scope else ""
        self.range(tid, start, end, f"Thunk:#{named}hlo_op={op}#")

    def call(self, tid: int, start: int, correlation: int, name: str = "cuLaunchKernel") -> None:
        """A CUDA API call of 5 ns."""
        self.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=start + 5,
            globalTid=tid,
            correlationId=correlation,
            nameId=self.text(name),
        )

    def kernel(
        self,
        device: int,
        stream: int,
        start: int,
        end: int,
        name: str,
        correlation: int,
        **more: object,
    ) -> None:
        """A kernel; `more` may give graphNodeId or another globalPid."""
        self._work(
            "KERNEL",
            (device, stream, start, end, correlation),
            demangledName=self.text(name),
            shortName=self.text(name.partition("(")[0]),
            **more,
        )

    def copy(
        self, device: int, stream: int, start: int, end: int, kind: int, correlation: int
    ) -> None:
        """A memcpy of 64 bytes; kind 1 is to the device, 2 from it."""
        self._work("MEMCPY", (device, stream, start, end, correlation), copyKind=kind, bytes=64)

    def memset(self, device: int, stream: int, start: int, end: int, correlation: int) -> None:
        """A memset."""
        self._work("MEMSET", (device, stream, start, end, correlation), value=0, bytes=64)

    def graph(self, device: int, stream: int, start: int, end: int, correlation: int) -> None:
        """A launch of CUDA graph 5, recorded whole."""
        self._work("GRAPH_TRACE", (device, stream, start, end, correlation), graphId=5)

    def node(self, tid: int, start: int, node: int, origin: int | None = None) -> None:
        """The making of a CUDA graph's node."""
        self.insert(
            "CUDA_GRAPH_NODE_EVENTS",
            start=start,
            end=start,
            globalTid=tid,
            graphNodeId=node,
            originalGraphNodeId=origin,
        )

    def _work(self, kind: str, where: tuple[int, int, int, int, int], **more: object) -> None:
        device, stream, start, end, correlation = where
        values: dict[str, object] = {
            "start": start,
            "end": end,
            "deviceId": device,
            "contextId": 1,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": PID,
        }
        self.insert(f"CUPTI_ACTIVITY_KIND_{kind}", **(values | more))
