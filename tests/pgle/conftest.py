"""For tests of profiles: XLA's GPU compiler, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xla_compiler import Compiler, why_none


@pytest.fixture(scope="session")
def xla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """The compiler, as loud as Counterpoint asks it to be."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    compiler = Compiler(tmp_path_factory.mktemp("xla"))
    yield compiler
    compiler.close()
