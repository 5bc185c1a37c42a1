"""Texts of any size whose cost may grow faster than they do: what damage to bytes almost never finds.

`growth.py` measures how the time grows with the size; the fuzzer mixes shapes of one format.
"""

# ruff: noqa: E501 - inputs are written as they are in files; nothing is secret

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

Lines = Callable[[int], list[str]]

CHECK = ("flags", "check", "@", "--no-probe")
RENDER = ("flags", "render", "@", "--as", "bash")
EXPLAIN = ("explain", "@", "--json")


@dataclass(frozen=True, slots=True)
class Shape:
    """A text of n parts, the file that it is in, and a command that reads it."""

    name: str
    file: str
    text: Callable[[int], bytes]
    command: tuple[str, ...]
    most: int = 40_000
    """How many parts the largest of three sizes has."""


def _lines(
    name: str, file: str, lines: Lines, command: tuple[str, ...], most: int = 40_000
) -> Shape:
    return Shape(name, file, lambda n: ("\n".join(lines(n)) + "\n").encode(), command, most)


def _program(body: Lines) -> Lines:
    def lines(n: int) -> list[str]:
        return [
            "HloModule made, is_scheduled=true",
            "",
            *body(n),
        ]

    return lines


def _chain(n: int) -> list[str]:
    ops = ["ENTRY main {", "  a0 = f32[8] parameter(0)"]
    ops += [f"  a{k} = f32[8] add(a{k - 1}, a{k - 1})" for k in range(1, n)]
    return [*ops, f"  ROOT r = f32[8] copy(a{n - 1})", "}"]


def _fan(n: int) -> list[str]:
    names = ", ".join(f"a{k}" for k in range(n))
    ops = [f"  a{k} = f32[8] sine(p)" for k in range(n)]
    kind = ", ".join(["f32[8]"] * n)
    return [
        "ENTRY main {",
        "  p = f32[8] parameter(0)",
        *ops,
        f"  ROOT r = ({kind}) tuple({names})",
        "}",
    ]


def _async(n: int) -> list[str]:
    """Collectives that are all under way at once."""
    ops = ["ENTRY main {", "  p = f32[8] parameter(0)"]
    ops += [
        f"  s{k} = (f32[8], f32[16]) all-gather-start(p), replica_groups={{{{0,1}}}}, dimensions={{0}}"
        for k in range(n)
    ]
    ops += [f"  d{k} = f32[16] all-gather-done(s{k})" for k in range(n)]
    return [*ops, "  ROOT r = f32[8] copy(p)", "}"]


def _computations(n: int) -> list[str]:
    """Computations of which each calls the one before it."""
    found = ["c0 {", "  a = f32[8] parameter(0)", "  ROOT b = f32[8] sine(a)", "}", ""]
    for k in range(1, n):
        found += [
            f"c{k} {{",
            "  a = f32[8] parameter(0)",
            f"  ROOT b = f32[8] call(a), to_apply=c{k - 1}",
            "}",
            "",
        ]
    return [
        *found,
        "ENTRY main {",
        "  a = f32[8] parameter(0)",
        f"  ROOT b = f32[8] call(a), to_apply=c{n - 1}",
        "}",
    ]


def _trace(event: Callable[[int], dict[str, object]]) -> Callable[[int], bytes]:
    def text(n: int) -> bytes:
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
            {
                "ph": "M",
                "pid": 1,
                "tid": 7,
                "name": "thread_name",
                "args": {"name": "Stream #7(Compute)"},
            },
        ]
        events += [{"ph": "X", "pid": 1, "tid": 7, "dur": 1.0, **event(k)} for k in range(n)]
        return gzip.compress(json.dumps({"traceEvents": events}).encode(), 1)

    return text


def _op(name: str) -> dict[str, object]:
    return {"hlo_op": name, "hlo_module": "jit_step"}


PREDICT = ("predict", "@", "--target", "8xH100", "--json")
PGLE = ("pgle", "show", "@", "--json")

SHAPES = (
    _lines("variables that double", "a.sh", lambda n: ["X=a", *['X="$X $X"'] * n], CHECK),
    _lines(
        "appends",
        "a.sh",
        lambda n: [*['XLA_FLAGS="$XLA_FLAGS --xla_a=1"'] * n, "export XLA_FLAGS"],
        CHECK,
        4_000,
    ),
    _lines(
        "flags in one line",
        "a.sh",
        lambda n: ['export XLA_FLAGS="' + "--xla_gpu_graph_level=0 " * n + '"'],
        CHECK,
        8_000,
    ),
    _lines(
        "many flags",
        "a.sh",
        lambda n: ['export XLA_FLAGS="' + " ".join(f"--xla_{k}=0" for k in range(n)) + '"'],
        CHECK,
        4_000,
    ),
    _lines("blank lines", "a.sh", lambda n: ["export A=1", *[""] * n, "python t.py"], CHECK),
    _lines(
        "continued lines", "a.sh", lambda n: ["export A=1 \\", *["  B=2 \\"] * n, "  C=3"], CHECK
    ),
    _lines(
        "nested ifs",
        "a.sh",
        lambda n: [*["if true; then"] * n, "export A=1", *["fi"] * n],
        CHECK,
        4_000,
    ),
    _lines(
        "nested quotes", "a.sh", lambda n: ["A=" + '"$(echo ' * n + "x" + ')"' * n], CHECK, 4_000
    ),
    _lines("open quotes", "a.sh", lambda n: ["A='" + "x" * 20] * n, CHECK),
    _lines(
        "functions that call",
        "a.sh",
        lambda n: [
            "f0() { A=1; }",
            *[f"f{k}() {{ f{k - 1}; f{k - 1}; }}" for k in range(1, n)],
            f"f{n - 1}",
        ],
        CHECK,
        8_000,
    ),
    _lines(
        "here documents",
        "a.sh",
        lambda n: ["cat <<EOF", "XLA_FLAGS=--xla_a=1", "EOF"] * n,
        CHECK,
        8_000,
    ),
    _lines("parameters", "a.sh", lambda n: ["A=" + "${B:-" * n + "x" + "}" * n], CHECK, 4_000),
    _lines("assignments", "a.env", lambda n: [f"A{k}=${{A{k - 1}}}" for k in range(n)], RENDER),
    _lines("one long word", "a.env", lambda n: ["A=" + "x" * 10 * n], RENDER),
    _lines(
        "aliases",
        "a.yaml",
        lambda n: ["a0: &a0 [x, x]", *[f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]" for k in range(1, n)]],
        CHECK,
        8_000,
    ),
    _lines(
        "merge keys",
        "a.yaml",
        lambda n: ["b: &b {A: 1}", *["- <<: *b"] * 0, *[f"c{k}: {{<<: *b}}" for k in range(n)]],
        CHECK,
        8_000,
    ),
    _lines("documents", "a.yaml", lambda n: ["---", "env: {A: '1'}"] * n, CHECK, 8_000),
    _lines("nested lists", "a.yaml", lambda n: ["a: " + "[" * n + "]" * n], CHECK, 4_000),
    _lines(
        "variables of a container",
        "a.yaml",
        lambda n: [
            "kind: Pod",
            "spec:",
            "  containers:",
            "  - name: c",
            "    env:",
            *[f"    - {{name: A{k}, value: b}}" for k in range(n)],
        ],
        CHECK,
        4_000,
    ),
    _lines(
        "strings that add up",
        "a.py",
        lambda n: ["import os", "x = 'a'", *["x = x + x"] * n, "os.environ['A'] = x"],
        CHECK,
        8_000,
    ),
    _lines(
        "os.environ",
        "a.py",
        lambda n: ["import os", *["os.environ['XLA_FLAGS'] += ' --xla_a=1'"] * n],
        CHECK,
        4_000,
    ),
    _lines(
        "nested parentheses", "a.py", lambda n: ["x = " + "(" * n + "1" + ")" * n], CHECK, 4_000
    ),
    _lines("one long sum", "a.py", lambda n: ["x = " + " + ".join(["'a'"] * n)], CHECK, 8_000),
    _lines("images", "Dockerfile", lambda n: [*["FROM x AS y"] * n, "ENV A=1"], CHECK),
    _lines(
        "variables of an image",
        "Dockerfile",
        lambda n: ["FROM x", *[f"ENV A{k}=$A{k - 1}" for k in range(n)]],
        CHECK,
        8_000,
    ),
    _lines("dotted keys", "a.toml", lambda n: ["a" + ".b" * n + " = 1"], CHECK),
    _lines("tables", "a.toml", lambda n: [f"[t{k}]" for k in range(n)], CHECK, 8_000),
    Shape("nested JSON", "a.json", lambda n: b"[" * n + b"]" * n, CHECK),
    _lines("a chain of ops", "p.txt", _program(_chain), PREDICT, 8_000),
    _lines("a tuple of all ops", "p.txt", _program(_fan), PREDICT, 8_000),
    _lines("collectives at once", "p.txt", _program(_async), PREDICT, 4_000),
    _lines("calls of calls", "p.txt", _program(_computations), PREDICT, 4_000),
    _lines(
        "costs",
        "p.pbtxt",
        lambda n: [f'costs {{ name: "fusion.{k}" cost_us: 1.5 }}' for k in range(n)],
        PGLE,
    ),
    _lines(
        "equal costs", "p.pbtxt", lambda n: ['costs { name: "fusion.1" cost_us: 1.5 }'] * n, PGLE
    ),
    _lines("open braces", "p.pbtxt", lambda n: ["costs {"] * n, PGLE),
    _lines("comments", "p.pbtxt", lambda n: ["# x"] * n, PGLE),
    Shape(
        "one op",
        "h.trace.json.gz",
        _trace(lambda k: {"ts": 2.0 * k, "name": "gemm", "args": _op("fusion.1")}),
        EXPLAIN,
    ),
    Shape(
        "different ops",
        "h.trace.json.gz",
        _trace(lambda k: {"ts": 2.0 * k, "name": f"gemm{k}", "args": _op(f"fusion.{k}")}),
        EXPLAIN,
    ),
    Shape(
        "ops at once",
        "h.trace.json.gz",
        _trace(lambda k: {"ts": 1.0 + 1e-3 * k, "name": "gemm", "args": _op(f"fusion.{k % 9}")}),
        EXPLAIN,
    ),
    Shape(
        "collectives",
        "h.trace.json.gz",
        _trace(
            lambda k: {
                "ts": 2.0 * k,
                "name": "ncclDevKernel_AllReduce",
                "args": _op(f"all-reduce.{k % 50}"),
            }
        ),
        EXPLAIN,
    ),
    Shape(
        "lanes",
        "h.trace.json.gz",
        _trace(lambda k: {"ts": 2.0, "tid": k, "name": "gemm", "args": _op("fusion.1")}),
        EXPLAIN,
        4_000,
    ),
    Shape(
        "devices",
        "h.trace.json.gz",
        _trace(lambda k: {"ts": 2.0, "pid": k, "name": "gemm", "args": _op("fusion.1")}),
        EXPLAIN,
        4_000,
    ),
)


def mixed(rng: random.Random) -> Shape:
    """Return a text of two or three shapes of one format, of sizes chosen at random."""
    first = rng.choice(SHAPES)
    others = [shape for shape in SHAPES if shape.file == first.file]
    chosen = (
        [first, *rng.choices(others, k=rng.randrange(3))]
        if first.file.endswith((".sh", ".py", ".yaml", ".env", ".pbtxt"))
        else [first]
    )
    parts = [shape.text(int(2 ** rng.uniform(0, 12))) for shape in chosen]
    name = " + ".join(shape.name for shape in chosen)
    return Shape(name, first.file, lambda _: b"".join(parts), first.command)
