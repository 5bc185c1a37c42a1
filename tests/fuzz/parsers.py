"""What reads each format without a command around it: thousands of damaged inputs a second.

A parser returns or raises an error of ours; all else that leaves it is a defect. What it returns
is used as a command would use it: priced, checked, written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Never

Parse = Callable[[Path], object]
"""Reads one input, and raises what the reader raises."""


def parser_of(seed: str) -> Parse | None:
    """Return what reads the seeds of this name (seeds.py) in this process, if anything does."""
    for names, parse in _PARSERS:
        if seed.startswith(names):
            return parse
    return None


def strict(text: str) -> None:
    """Raise if a text is no JSON as the standard has it, or can't be written as UTF-8."""
    json.loads(text, parse_constant=_refused)
    text.encode("utf-8")


def _refused(constant: str) -> Never:
    raise AssertionError(f"{constant} is no JSON")


def _program(path: Path) -> None:
    from counterpoint.cost.build import build_model
    from counterpoint.hardware.targets import parse_target
    from counterpoint.hlo.reader import read_program
    from counterpoint.hlo.work import flops

    program = read_program(path)
    model = build_model(parse_target("8xH100"))
    for instruction in program.instructions:
        flops(program, instruction)
        if instruction.opcode not in ("while", "call", "conditional"):
            model.price(program, instruction)


def _profile(path: Path) -> None:
    from counterpoint.pgle.profiles.files import read_profile
    from counterpoint.report.pgle.pgle_json import profile_json

    strict(profile_json(read_profile(path), path.name))


def _settings(path: Path) -> None:
    from counterpoint.flags.check.examination import CheckRequest, examine
    from counterpoint.flags.parse.source import read_text
    from counterpoint.report.flags.settings_json import check_json

    text = path.read_bytes().decode("utf-8", "replace")
    strict(check_json(examine(read_text(text, path.name), CheckRequest(version="0.10.2"))))


def _target(path: Path) -> None:
    from counterpoint.hardware.targets import parse_target

    parse_target(str(path))


def _gemm(path: Path) -> None:
    from counterpoint.cost.tables.gemm_csv import read_gemm_csv

    read_gemm_csv(path).seconds(1, 512, 4096, 1024, "bf16")


def _nccl(path: Path) -> None:
    from counterpoint.cost.tables.nccl_tests import read_nccl_log

    read_nccl_log(path)


def _kernels(path: Path) -> None:
    from counterpoint.cost.tables.kernel_toml import amount, read_kernel_toml

    found = read_kernel_toml(path).find("my_fastkernel")
    for work in (found.us, found.flops, found.bytes) if found else ():
        if work is not None:
            amount(work, ((8, 16), (16,)), ((8,),))


def _calibration(path: Path) -> None:
    from counterpoint.cost.scalars import default_scalars, read_scalars

    read_scalars(path).over(default_scalars("H100"), "H100")


def _lowered(path: Path) -> None:
    from counterpoint.compile.inputs.artifacts import artifacts
    from counterpoint.compile.inputs.candidates import candidates, counts, ranked, symbol

    for candidate in ranked(candidates(artifacts(path))):
        data = candidate.artifact.read()
        counts(data)
        symbol(data)


def _timeline(path: Path) -> None:
    from counterpoint.timeline.reading import read

    read(path)


def _runs(path: Path) -> None:
    from counterpoint.runs.reader import list_runs

    for run in list_runs(path.parent):
        for rank in run.ranks:
            _ = rank.step_seconds, rank.step_module


def _study(path: Path) -> None:
    from counterpoint.tune.study import plan_of, read_study

    plan_of(read_study(path))


def _log(path: Path) -> None:
    from counterpoint.capture.steps import step_of
    from counterpoint.pgle.compiler_log import read_compiler_log
    from counterpoint.runs.reports import is_debug_options, parse_debug_options

    text = path.read_bytes().decode("utf-8", "replace")
    for line in text.splitlines():
        step_of(line)
    read_compiler_log(text)
    if is_debug_options(text):
        parse_debug_options(text)


_PARSERS: tuple[tuple[tuple[str, ...], Parse], ...] = (
    (("hlo-",), _program),
    (("pgle-", "profile"), _profile),
    (("a.sh", "a.sb", "a.yaml", "a.py", "a.env", "a.toml", "a.json", "Dockerfile"), _settings),
    (("a.ipynb", "a.md", "a.rst", "a.log"), _settings),
    (("target",), _target),
    (("gemm",), _gemm),
    (("nccl",), _nccl),
    (("kernel",), _kernels),
    (("calibration",), _calibration),
    (("stablehlo",), _lowered),
    (("xplane", "trace", "sqlite", "bundle", "riegeli", "stored"), _timeline),
    (("run",), _runs),
    (("study",), _study),
    (("log",), _log),
)
