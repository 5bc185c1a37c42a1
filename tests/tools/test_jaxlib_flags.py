"""The flags of the installed jaxlib, read out of itself as a maintainer adds a release."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from counterpoint.flags.catalogue.lookup import facts_at, releases
from jaxlib_flags import find_library, read_jaxlib_flags
from xla_options import NoOptionsError, read_fields
from xla_parser import Parser, ParserError, is_unknown

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def jaxlib() -> Path:
    found = importlib.util.find_spec("jaxlib")
    if found is None or found.origin is None:
        pytest.skip("jaxlib is not here")
    return Path(found.origin).parent


def test_the_installed_jaxlib_says_what_ships(jaxlib: Path) -> None:
    """The table was made so: doing it again brings no news."""
    del jaxlib
    version, facts = read_jaxlib_flags(Path(sys.executable))
    assert sum(name.islower() for name in facts) > 300
    assert sum(name.isupper() for name in facts) > 80
    if version not in releases():
        pytest.skip("this jaxlib does not ship with the catalogue")
    assert facts == facts_at(version)


def test_the_parser_is_asked_as_often_as_one_likes(jaxlib: Path) -> None:
    del jaxlib
    with Parser(Path(sys.executable)) as parser:
        assert parser.parse("").options
        assert parser.parse("--xla_gpu_autotune_level=2").options != parser.parse("").options
        assert is_unknown(parser.parse("--xla_nobody_knows=2"))
        wrong = parser.parse("--xla_gpu_autotune_level=x")
        assert wrong.options is None
        assert not is_unknown(wrong)
        assert parser.parse("").options


def test_a_python_without_jaxlib_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "jaxlib.py").write_text("raise ImportError('broken install')")
    with pytest.raises(ParserError, match="broken install"):
        Parser(Path(sys.executable))


def test_what_is_no_python_is_told() -> None:
    with pytest.raises(ParserError, match="exit code"):
        Parser(Path(shutil.which("true") or "/bin/true"))


def test_types_and_enums_are_read_without_loading_the_library(jaxlib: Path) -> None:
    fields = {field.name: field for field in read_fields(find_library(jaxlib))}
    assert len(fields) > 250
    assert fields["xla_gpu_enable_triton_gemm"].type == "bool"
    assert fields["xla_disable_hlo_passes"].type == "strings"
    assert fields["xla_backend_extra_options"].type == "map"
    assert "ALLREDUCE" in fields["xla_gpu_disable_async_collectives"].enum.values()


def test_a_library_without_xla_is_told() -> None:
    with pytest.raises(NoOptionsError, match="no descriptor of XLA's options"):
        read_fields(Path(shutil.which("ls") or "/bin/ls"))
