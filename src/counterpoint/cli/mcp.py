"""`counterpoint mcp`: some commands as tools for coding agents, over the Model Context Protocol.

Each call is a `counterpoint` of its own. Where it takes paths, the kernel confines it to the given
roots (`confinement.py`): neither an argument nor a link nor a path recorded in a Run leads out.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from counterpoint import __version__
from counterpoint.cli.confinement import confine, refuse_old_kernel
from counterpoint.core import UsageError
from counterpoint.core.frozen import frozen
from counterpoint.report.digest import BUDGET, LEAST

_RUN: Final = (
    "import json, sys; from counterpoint.cli.mcp import run_confined; run_confined(*sys.argv[1:])"
)
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
"""Variables of the server that its tools see; the others may be secret."""
_TYPES: Final = {int: "integer", float: "number", bool: "boolean"}


@frozen
class Tool:
    """A command as a tool: which of its arguments it takes, and which of those are paths."""

    command: str
    paths: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    digest: bool = False

    @property
    def name(self) -> str:
        return self.command.replace(" ", "_")


TOOLS: Final = (
    Tool("explain", ("paths",), ("step", "steps", "last", "device", "target"), digest=True),
    Tool("compare", ("paths", "with"), digest=True),
    Tool("predict", ("workload", "profile"), ("target", "set", "timeout"), digest=True),
    Tool("tune show", ("study",), digest=True),
    Tool("flags check", ("source",), ("target", "jaxlib", "chip", "profiling")),
    Tool("pgle check", ("profile", "program"), ("module", "top")),
    Tool("doctor", (), ("only", "skip")),
    Tool("skill"),
)
"""They only read. What trains or writes files is left to a shell, where the user approves it."""


@frozen
class Argument:
    """An argument of a tool, as on the command line."""

    schema: Mapping[str, Any]
    positional: bool
    required: bool


class _Refused(Exception):  # the answer to a call
    pass


def mcp(
    *,
    root: Annotated[tuple[Path, ...], Parameter(consume_multiple=True)],
    budget: int = BUDGET,
    timeout: float = 600.0,
) -> None:
    """Serve explain, compare, predict, flags check and others as tools over stdin and stdout.

    Args:
        root: Directories that tools may read: Runs, profiles, studies, programs, scripts.
        budget: Characters of an answer, unless the call asks for another number.
        timeout: Time limit of a call in seconds.
    """
    roots = [path.resolve() for path in root]
    for path in roots:
        if not path.is_dir():
            raise UsageError(f"--root {path} is not a directory")
    if budget < LEAST or not timeout > 0:
        raise UsageError(f"--budget is at least {LEAST}, and --timeout more than 0")
    if find_spec("mcp") is None:
        raise UsageError("the MCP SDK is not installed", next="pip install 'counterpoint[mcp]'")
    refuse_old_kernel()
    asyncio.run(_serve(_Tools(roots, budget, timeout)))


async def _serve(tools: _Tools) -> None:
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def listed(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(**one) for one in tools.described])

    async def called(_: object, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text, failed = await tools.call(asked.name, asked.arguments or {}), False
        except _Refused as refused:
            text, failed = str(refused), True
        content = types.TextContent(type="text", text=text)
        return types.CallToolResult(content=[content], is_error=failed)

    server: Any = Server(
        "counterpoint", version=__version__, on_list_tools=listed, on_call_tool=called
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Tools:
    """The tools, with schemas made from the command line's own arguments."""

    def __init__(self, roots: Sequence[Path], budget: int, timeout: float) -> None:
        self._roots, self._budget, self._timeout = roots, budget, timeout
        self._by_name = {tool.name: tool for tool in TOOLS}
        self._arguments = {tool.name: _arguments(tool) for tool in TOOLS}
        self.described = [self._described(tool) for tool in TOOLS]

    def _described(self, tool: Tool) -> dict[str, Any]:
        from counterpoint.cli.commands import COMMANDS

        summary = next(one.summary for one in COMMANDS if one.name == tool.command)
        arguments = self._arguments[tool.name]
        usual = "all of it" if tool.command == "skill" else self._budget
        budget = {"type": "integer", "description": f"Characters; default {usual}."}
        shown = {name: one.schema for name, one in arguments}
        return {
            "name": tool.name,
            "description": f"{summary} Paths are relative to {self._roots[0]}.",
            "input_schema": {
                "type": "object",
                "properties": {**shown, "budget": budget},
                "required": [name for name, one in arguments if one.required],
                "additionalProperties": False,
            },
            "annotations": {"read_only_hint": True, "open_world_hint": False},
        }

    async def call(self, name: str, given: Mapping[str, Any]) -> str:
        """Return the answer of a tool; raise _Refused with what is wrong."""
        tool = self._by_name.get(name)
        if tool is None:
            raise _Refused(f"unknown tool {name!r}; tools are {', '.join(self._by_name)}")
        budget = given.get("budget", self._budget)
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < LEAST:
            raise _Refused(f"budget takes a number of at least {LEAST}, not {budget!r}")
        words = self._words(tool, {n: v for n, v in given.items() if n != "budget"})
        if tool.digest:
            words += ["--as", "digest", "--budget", str(budget)]
        text, said = await self._run(words, confined=bool(tool.paths))
        whole = text if tool.digest else text + said
        return whole if tool.command == "skill" and "budget" not in given else _cut(whole, budget)

    def _words(self, tool: Tool, given: Mapping[str, Any]) -> list[str]:
        known = dict(self._arguments[tool.name])
        for name in given:
            if name not in known:
                raise _Refused(f"{tool.name} has no argument {name!r}, but {', '.join(known)}")
        missing = [name for name, one in known.items() if one.required and name not in given]
        if missing:
            raise _Refused(f"{tool.name}: {', '.join(missing)} is missing")
        words = tool.command.split()
        for name, value in given.items():
            schema = known[name].schema
            values: list[object] = [*value] if isinstance(value, list) else [value]
            texts = [self._text(tool, name, one) for one in values]
            if known[name].positional:
                words += texts
            elif schema["type"] == "boolean":
                words += [f"--{name}"] if value is True else []
            else:
                words += [f"--{name}={text}" for text in texts]
        return words

    def _text(self, tool: Tool, name: str, value: object) -> str:
        if not isinstance(value, str | int | float):
            raise _Refused(f"{tool.name}: {name} takes text or a number, not {value!r}")
        if name not in tool.paths:
            return str(value)
        text = str(value)
        if name == "source" and text.startswith("--xla_"):
            return text  # the flags themselves
        try:
            found = (self._roots[0] / text).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            found = None
        if found is None or not any(found.is_relative_to(root) for root in self._roots):
            allowed = ", ".join(map(str, self._roots))
            raise _Refused(f"{name}: there is no {text!r} within {allowed}")
        if found.suffix == ".py" and tool.command == "predict":
            raise _Refused(f"{name}: {text} is a program, and no tool runs one")
        return str(found)

    async def _run(self, words: Sequence[str], *, confined: bool) -> tuple[str, str]:
        """Run a command; return its result, and what it said beside it.

        What takes no paths, as the doctor, looks at this machine as it is.
        """
        scratch = tempfile.mkdtemp(prefix="counterpoint-mcp-")
        given = (json.dumps([str(root) for root in self._roots]), scratch, json.dumps(words))
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": scratch, "TMPDIR": scratch, "PYTHONPATH": os.pathsep.join(sys.path)}
        program = ("-c", _RUN, *given) if confined else ("-m", "counterpoint", *words)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", *program),
            cwd=self._roots[0],
            env={**kept, **own} if confined else None,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(child.communicate(), self._timeout)
        except TimeoutError:
            raise _Refused(f"no answer within {self._timeout:g} s") from None
        finally:
            _end(child.pid)
            shutil.rmtree(scratch, ignore_errors=True)
        text, said = (part.decode("utf-8", errors="replace") for part in (out, err))
        if child.returncode and (child.returncode != 1 or not text.strip()):
            raise _Refused(_cut(said.strip() or text.strip(), max(self._budget, BUDGET)))
        return text, said


def run_confined(roots: str, scratch: str, words: str) -> None:
    """Run a command in this process, which can then only read what is in the roots."""
    from counterpoint.cli.app import main

    confine([Path(root) for root in json.loads(roots)], Path(scratch))
    sys.exit(main(json.loads(words)))


def _arguments(tool: Tool) -> list[tuple[str, Argument]]:
    """Return the arguments of a tool with their schemas, in the words of the command's help."""
    from counterpoint.cli.app import app_of
    from counterpoint.cli.commands import COMMANDS

    app = app_of(COMMANDS, "tune")
    for word in tool.command.split():
        app = app[word]
    found: dict[str, Argument] = {}
    for one in app.assemble_argument_collection(parse_docstring=True):
        name = one.name.lstrip("-").lower()
        if name in (*tool.paths, *tool.options):
            found.setdefault(name, _argument(one, is_path=name in tool.paths))
    return list(found.items())


def _argument(argument: Any, *, is_path: bool) -> Argument:  # noqa: ANN401 - cyclopts' own
    hint = str(argument.hint)
    plain = next((kind for kind in _TYPES if kind.__name__ in hint), None)
    text = {"type": _TYPES[plain]} if plain and not is_path else {"type": "string"}
    schema = {"type": "array", "items": text} if hint.startswith("tuple") else text
    told = {**schema, "description": inspect.cleandoc(argument.parameter.help or "")}
    positional = bool(argument.field_info.is_positional)
    return Argument(told, positional, bool(argument.required or (is_path and positional)))


def _cut(text: str, budget: int) -> str:
    """Return whole lines that fit, and how many are left out."""
    if len(text) <= budget:
        return text
    kept: list[str] = []
    lines = text.splitlines()
    room = budget - len("(999,999 more lines; ask for a larger budget)\n")
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, f"({len(lines) - len(kept):,} more lines; ask for a larger budget)"])


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
