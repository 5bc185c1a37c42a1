"""Programs for the tests: compiled fixtures (make_fixtures.py) and short modules in text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.text_reader import program_from_text

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def load() -> Callable[[str], Program]:
    """A Program of tests/hlo/data by file name."""
    return cache(lambda name: read_program(DATA / name))


@pytest.fixture(scope="session")
def gpu_step(load: Callable[[str], Program]) -> Program:
    return load("gpu_step.hlo.pb.xz")


@pytest.fixture(scope="session")
def cpu_step(load: Callable[[str], Program]) -> Program:
    return load("cpu_step.hlo.pb.xz")


@pytest.fixture(scope="session")
def module() -> Callable[..., Program]:
    """A Program whose entry holds the given lines, with other computations before it."""

    def build(entry: str, before: str = "", attributes: str = "num_partitions=8") -> Program:
        return program_from_text(
            f"HloModule test, is_scheduled=true, {attributes}\n\n{before}\n"
            f"ENTRY %main (p: f32[8]) -> f32[8] {{\n{entry}\n}}\n"
        )

    return build
