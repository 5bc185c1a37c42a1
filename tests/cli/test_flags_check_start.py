"""`flags check` loads the compiler ahead, and says what it says otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from counterpoint.cli.app import main

Captured = pytest.CaptureFixture[str]
needs_jaxlib = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib is not here"
)


def checked(*words: str | Path) -> int:
    return main(["flags", "check", *map(str, words)])


@pytest.mark.system
@needs_jaxlib
def test_the_answer_is_the_same_whether_the_compiler_was_loaded_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Loaded ahead the first time, as usual the second; and what is left out loads nothing."""
    kept = tmp_path / "cache" / "probe"
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "job.sh"
    source.write_text('export XLA_FLAGS="--xla_gpu_autotune_level=abc --xla_no_such=1"\n')
    assert checked(source, "--no-probe") == 1
    assert not kept.exists()
    capsys.readouterr()
    assert checked(source, "--json") == 1
    (mark,) = kept.glob("*.asked")
    ahead = capsys.readouterr().out
    for answer in kept.glob("*.json"):
        answer.unlink()
    assert checked(source, "--json") == 1
    assert capsys.readouterr().out == ahead
    source.write_text("export NCCL_DEBUG=INFO\n")
    assert checked(source) == 0
    assert [*kept.glob("*.asked")] == [mark]
