"""The tools for coding agents, called by the SDK's own client over stdio, by friend and foe."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from xspace_builder import US, hlo_proto, kernel, metadata, nvidia, xspace

from command_line import in_process
from counterpoint.cli.mcp import TOOLS
from counterpoint.runs import Outcome, OutcomeKind, layout
from counterpoint.runs.recording import RankStart, RunStart, RunWriter
from counterpoint.runs.run import RunSettings

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

pytest.importorskip("mcp", reason="counterpoint[mcp] is not installed")
pytestmark = pytest.mark.system

T = TypeVar("T")
STEP = ("jit_step", 7)
HLO = {"fusion.1": "fusion", "all-reduce.1": "all-reduce"}


def profile(us: int = 10) -> bytes:
    """Six steps on one GPU: 6 us of compute, 2 of all-reduce, and nothing."""
    gpu, stream, reduce = nvidia(0), "Stream #20(Compute)", "ncclDevKernel_AllReduce_Sum"
    for step in range(6):
        start = step * us * US
        kernel(gpu, stream, "fusion_1", start, 6 * US, op="fusion.1", module=STEP)
        kernel(gpu, stream, reduce, start + 6 * US, 2 * US, op="all-reduce.1", module=STEP)
    return xspace(gpu, metadata({STEP: hlo_proto("jit_step", HLO)}))


def text_of(answer: CallToolResult) -> str:
    (content,) = answer.content
    assert content.type == "text"
    return content.text


class Place:
    """Two profiles within the root, one outside of it, and what leads there."""

    def __init__(self, home: Path) -> None:
        self.root, self.outside = home / "root", home / "outside"
        for directory in (self.root, self.outside):
            session = directory / "own" / "plugins" / "profile" / "2026_01_01"
            session.mkdir(parents=True)
            (session / "host.xplane.pb").write_bytes(profile())
        (self.root / "a.xplane.pb").write_bytes(profile())
        (self.root / "b.xplane.pb").write_bytes(profile(12))
        self.secret = self.outside / "own/plugins/profile/2026_01_01/host.xplane.pb"

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, T]], *words: str) -> T:
        """Start the server, let a client work with it, and return what that returns."""
        from mcp import Client, StdioServerParameters

        server = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "counterpoint", "mcp", "--root", str(self.root), *words],
            env={**os.environ, "SECRET": "hunter2"},
        )

        async def conversation() -> T:
            async with Client(server) as client:
                return await work(client)

        # In a thread of its own: the browser's tests leave an event loop in the main one.
        with ThreadPoolExecutor(1) as own:
            return own.submit(asyncio.run, conversation()).result()

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, str]]:
        """Return of each call whether it is an error, and its text."""

        async def work(client: Client) -> list[tuple[bool, str]]:
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            return [(answer.is_error, text_of(answer)) for answer in answers]

        return self.ask(work)


def run_with(path: Path, file: Path) -> None:
    """A Run whose rank says that its profile is this file, wherever that lies."""
    start = RunStart(
        name="train",
        command=("python", "train.py"),
        cwd=str(path.parent),
        settings=RunSettings((), ()),
        launcher="local",
        world_size=1,
        version="0",
    )
    writer = RunWriter.claim(path, start)
    directory = writer.add_rank(0)
    writer.start_rank(RankStart(0, profile=True), os.getpid())
    writer.end_rank(0, Outcome(OutcomeKind.OK, 0))
    writer.end()
    said = {"window": {"state": "done", "files": [str(file)]}}
    (directory / layout.AGENT / "process-1.json").write_text(json.dumps(said))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_tools_are_commands_in_the_words_of_their_help(place: Place) -> None:
    async def work(client: Client) -> list[Tool]:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in place.ask(work)}
    assert list(tools) == [tool.name for tool in TOOLS]
    assert len(tools) <= 8
    explain = tools["explain"]
    assert explain.description is not None
    assert "Explain where a training step spends its time" in explain.description
    assert explain.input_schema["required"] == ["paths"]
    properties = explain.input_schema["properties"]
    assert properties["last"]["type"] == "integer"
    assert "Explain only" in properties["last"]["description"]
    assert {"out", "html", "force", "json"} & set(properties) == set()
    assert tools["pgle_check"].input_schema["required"] == ["profile"]


def test_answers_are_those_of_the_command_line_as_digests(place: Place) -> None:
    explained, compared, skill, part, cut, checked = place.calls(
        ("explain", {"paths": ["a.xplane.pb"], "last": 3}),
        ("compare", {"paths": [str(place.root / "a.xplane.pb"), "b.xplane.pb"]}),
        ("skill", {}),
        ("skill", {"budget": 500}),
        ("flags_check", {"source": "--xla_gpu_nonsense=1", "budget": 500}),
        ("flags_check", {"source": "--xla_gpu_nonsense=1", "jaxlib": "0.8.99"}),
    )
    path = str(place.root / "a.xplane.pb")
    said = in_process("explain", path, "--last", 3, "--as", "digest", cwd=place.root).stdout
    assert explained == (False, said)
    assert "step [measured]: 0.0100 ms" in said
    assert not compared[0], compared[1]
    assert "0.0120" in compared[1]
    assert skill[1] == in_process("skill").stdout
    assert len(part[1]) <= 500
    assert part[1][:100] == skill[1][:100]
    assert "the nearest release" in checked[1]
    assert not cut[0]
    assert "xla_gpu_nonsense" in cut[1]
    assert len(cut[1]) <= 500


def test_what_leads_out_of_the_roots_is_not_followed(place: Place) -> None:
    (place.root / "link.xplane.pb").symlink_to(place.secret)
    (place.root / "links").mkdir()
    (place.root / "links" / "deep.xplane.pb").symlink_to(place.secret)
    (place.root / "script.py").write_text(f"open({str(place.outside / 'written')!r}, 'w')\n")
    shown = [
        ("explain", {"paths": [str(place.secret)]}),
        ("explain", {"paths": ["../outside/own"]}),
        ("explain", {"paths": ["link.xplane.pb"]}),
        ("explain", {"paths": ["links"]}),
        ("explain", {"paths": ["--out=x.txt"]}),
        ("explain", {"paths": ["a.xplane.pb"], "target": str(place.outside / "t.toml")}),
        ("compare", {"paths": ["a.xplane.pb"], "with": ["/etc/passwd"]}),
        ("explain", {"paths": ["gs://bucket/run"]}),
        ("explain", {"paths": ["a\0b"]}),
        ("flags_check", {"source": "/etc/passwd"}),
        ("flags_check", {"source": f"pid:{os.getpid()}"}),
        ("predict", {"workload": "script.py:step"}),
        ("predict", {"workload": "script.py"}),
        ("tune_show", {"study": ".."}),
    ]
    for (name, arguments), (is_error, text) in zip(shown, place.calls(*shown), strict=True):
        assert is_error, (name, arguments, text)
        assert "Traceback" not in text
        assert "hunter2" not in text
        assert "step time" not in text
    assert not (place.outside / "written").exists()


def test_paths_recorded_in_a_run_are_not_followed(place: Place) -> None:
    session = "own/plugins/profile/2026_01_01/host.xplane.pb"
    for name, file in (("mine", place.root / session), ("theirs", place.secret)):
        run_with(place.root / name, file)
        free = in_process("explain", place.root / name, "--as", "digest")
        assert free.returncode == 0, free.stderr  # both can be read in a shell
    mine, theirs = place.calls(("explain", {"paths": ["mine"]}), ("explain", {"paths": ["theirs"]}))
    assert not mine[0], mine[1]
    assert theirs[0], theirs[1]


def test_wrong_calls_are_answered_in_words(place: Place) -> None:
    told = place.calls(
        ("train", {}),
        ("explain", {}),
        ("explain", {"paths": ["a.xplane.pb"], "out": "x.txt"}),
        ("explain", {"paths": ["a.xplane.pb"], "budget": 3}),
        ("explain", {"paths": [{"a": 1}]}),
        ("explain", {"paths": ["a.xplane.pb"], "last": "many"}),
        ("explain", {"paths": ["nothere"]}),
    )
    assert [is_error for is_error, _ in told] == [True] * len(told)
    texts = [text for _, text in told]
    assert "unknown tool 'train'; tools are explain, compare" in texts[0]
    assert "paths is missing" in texts[1]
    assert "explain has no argument 'out'" in texts[2]
    assert "budget takes a number of at least" in texts[3]
    assert "takes text or a number" in texts[4]
    assert "many" in texts[5]
    assert "there is no 'nothere' within" in texts[6]
    assert not list(place.root.glob("x.txt"))


def test_a_call_that_takes_too_long_ends(place: Place) -> None:
    async def work(client: Client) -> CallToolResult:
        return await client.call_tool("explain", {"paths": ["a.xplane.pb"]})

    answer = place.ask(work, "--timeout", "0.01")
    assert answer.is_error
    assert text_of(answer) == "no answer within 0.01 s"


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    told = in_process("mcp", "--root", tmp_path / "nothere")
    assert told.returncode == 2
    assert "is not a directory" in told.stderr
    assert in_process("mcp").returncode == 2
