"""Every choice of every dimension, given to the real compiler: none is refused."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from counterpoint.flags import Settings
from counterpoint.flags.catalogue import release
from counterpoint.flags.forms import compiler_options
from tune_spaces import space_of
from xla_compiler import Compiler, why_none

TARGETS = ("8x1xH100", "2x4xA100-80GB", "8xB200")
ENDS = {"0.12.": {"collective matmul", "all-to-all matmul"}}
"""XLA's own verifier refuses what XLA makes of this program then; others get by."""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Generator[Compiler]:
    why = why_none()
    if why:
        pytest.skip(why)
    found = Compiler(tmp_path_factory.mktemp("space"))
    yield found
    found.close()


@pytest.mark.slow
def test_the_compiler_takes_every_choice(compiler: Compiler) -> None:
    """In a program with a loop and the usual collectives; what is alike is compiled once."""
    here = release(pytest.importorskip("jaxlib.version").__version__)
    changes = {
        it.settings: str(it)
        for target in TARGETS
        for dimension in space_of(target=target, version=here.version).dimensions
        for it in dimension.choices
        if it.settings.xla
    }
    assert len(changes) > 35
    failed: dict[str, str] = {}
    for settings, name in changes.items():
        asked = compiler_options(Settings(settings.xla), here)
        assert not asked.left_out, name
        options = {key: it for key, it in asked.taken.items() if not isinstance(it, float)}
        compiled = compiler.compile("step", **options)
        if compiled.error is not None:
            failed[name] = compiled.error
    ends = next((it for start, it in ENDS.items() if here.version.startswith(start)), set[str]())
    assert set(failed) == ends, failed
