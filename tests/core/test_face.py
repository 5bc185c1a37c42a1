"""A face states each of its names once, for type checkers, and loads it at first use."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FILES = {
    "fronted/__init__.py": """\
from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from fronted.replay import Replay as Replay
    from fronted.replay import (
        replay as replay,
    )
    from fronted.replay import hidden

__getattr__ = lazy(__name__)
""",
    "fronted/replay.py": "Replay, hidden = 1, 2\n\ndef replay():\n    return 3\n",
}


@pytest.fixture(params=["directory", "archive"])
def fronted(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    place = tmp_path / "place"
    if request.param == "archive":
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
    else:
        (place / "fronted").mkdir(parents=True)
        for name, text in FILES.items():
            (place / name).write_text(text)
    monkeypatch.syspath_prepend(str(place))
    yield importlib.import_module("fronted")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fronted"]:
        del sys.modules[name]


def test_a_name_is_loaded_when_it_is_used(fronted: ModuleType) -> None:
    assert "fronted.replay" not in sys.modules
    assert fronted.Replay == 1
    assert "fronted.replay" in sys.modules


def test_a_module_does_not_replace_the_name(fronted: ModuleType) -> None:
    importlib.import_module("fronted.replay")
    assert fronted.replay() == 3


@pytest.mark.parametrize("name", ["hidden", "lost"])
def test_other_names_are_unknown(fronted: ModuleType, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'fronted' .*'{name}'"):
        getattr(fronted, name)
