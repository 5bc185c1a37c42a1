"""Every reader of text is done with one long word in the place of any of its tokens.

A pattern with two repeats that may match the same characters takes the square of a word's length:
minutes for what a linear one reads in milliseconds. The limit is far from both, and it counts the
time of this process alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType

import pytest

from counterpoint.capture.losses import logged_values
from counterpoint.capture.steps import step_of
from counterpoint.core import CounterpointError
from counterpoint.runs.compiler_lines import compiler_lines
from counterpoint.runs.outcomes import classify
from counterpoint.timeline.reading import read
from fuzz.parsers import parser_of
from fuzz.seeds import logs, lowered, programs, scripts, tables

LENGTH = 50_000
LIMIT_S = 4.0
TOKEN = re.compile(r"[A-Za-z_]+|\d+|[ \t]+|\n+|[^\w\s]")

HEAD = """HloModule jit_step, is_scheduled=true, num_partitions=8

ENTRY %main.7 (p.1: f32[8]) -> f32[8] {
  %p.1 = f32[8]{0:T(8,128)S(1)} parameter(0), sharding={devices=[2,1]<=[2]}
  %p.2 = f32[8]{0} parameter(1), sharding={mesh['x'=2,'y'=4], device_ids=(0,1), [{'x', ?}]}
"""
PROGRAM = HEAD + (
    "  %ar.2_1 = f32[8]{0} all-reduce(/*index=0*/%p.1), "
    "replica_groups=mesh['x'=2,'y'=4] {'x':(1)2}, channel_id=1, "
    r'metadata={op_name="jit(step)/a \"b\"" source_file="/x/train.py" source_line=3}'
    '\n  ROOT %cc.remat.3 = f32[8]{0} custom-call(%ar.2_1), custom_call_target="triton", '
    'backend_config={"grid":{"x":1,"mode" : "fast"}}, frontend_attributes={k="1",s="x"}\n}\n'
)
OUTPUT = """I0000 00:00:1.000000 7 gpu_hlo_schedule.cc:377] Found 3 missing instructions.
step 3 loss: 1.5 tokens/s 1000, train/grad_norm = 2.0 lr "3e-4"
 10%|#         | 10/100 [00:01<00:09,  9.9it/s, loss=1.25]
W0000 x.cc:1] CUPTI_ERROR_MULTIPLE_SUBSCRIBERS: another profiling session active (7)
ValueError: Unable to open 'file': No space left on device
"""
TRACE = json.dumps(
    {
        "traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
            {
                "ph": "M",
                "pid": 1,
                "tid": 7,
                "name": "thread_name",
                "args": {"name": "Stream #7(Compute)"},
            },
            {
                "ph": "X",
                "pid": 1,
                "tid": 7,
                "ts": 1.5,
                "dur": 1.0,
                "name": "fusion.remat.12_clone-1",
                "args": {"hlo_op": "all-reduce.1.2", "hlo_module": "jit_step(12)"},
            },
        ]
    }
)


def _output(path: Path) -> None:
    """Read a file as `run` and `tune` read what a program prints."""
    text = path.read_text()
    classify(1, None, text)
    list(compiler_lines(text))
    for line in text.splitlines():
        step_of(line)
        logged_values(line)


def _texts() -> Iterator[tuple[str, str, str, Callable[[Path], object]]]:
    """Yield name, name of the file, text and reader."""
    for seed in (*scripts(), *tables(), *lowered(), *logs(), *programs()):
        parse = parser_of(seed.name)
        data = seed.files[seed.path]
        if parse and len(data) < 2000 and data.isascii() and b"\0" not in data:
            yield seed.name, seed.path, data.decode(), parse
    program = parser_of("hlo-")
    assert program
    yield "hlo-with-metadata", "m.txt", PROGRAM, program
    yield "output", "output.log", OUTPUT, _output
    yield "trace", "t.trace.json", TRACE, read


TEXTS = list(_texts())


@pytest.mark.parametrize(
    ("file", "text", "parse"), [it[1:] for it in TEXTS], ids=[it[0] for it in TEXTS]
)
def test_one_long_word(
    file: str, text: str, parse: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_text(text)
    parse(path)  # so that what follows is read to its end, too
    for token, long in _stretched(text):
        path.write_text(long)
        with _limited(f"{token!r} of {LENGTH} characters"), contextlib.suppress(CounterpointError):
            parse(path)


def _stretched(text: str) -> Iterator[tuple[str, str]]:
    """Yield each token, and the text with a word in its place; new ones are repeated, too."""
    seen: set[str] = set()
    for found in TOKEN.finditer(text):
        token, before, after = found[0], text[: found.start()], text[found.end() :]
        parts = {"a"} if token in seen else {"a", token, token[-1]}
        seen.add(token)
        for part in parts:
            yield token, before + part * (LENGTH // len(part)) + after


@contextlib.contextmanager
def _limited(what: str) -> Generator[None]:
    def end(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"after {LIMIT_S} s of CPU time: still busy with {what}")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
