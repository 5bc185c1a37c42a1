"""For tests of profiles: XLA's GPU compiler, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterpoint.pgle.proof import LOUD
from xla_compiler import Compiler, why_none


@pytest.fixture(scope="session")
def xla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """The compiler, as loud as Counterpoint asks it to be."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    # Said aloud: a test that imports JAX has silenced the environment.
    compiler = Compiler(tmp_path_factory.mktemp("xla"), LOUD)
    yield compiler
    compiler.close()
