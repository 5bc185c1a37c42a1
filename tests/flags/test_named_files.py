"""Files that an input names: only what lies beside it is read, and never shown but for flags."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import CounterpointError
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.named_files import LARGEST
from counterpoint.flags.text import expand_xla_flags

Captured = pytest.CaptureFixture[str]
Said = Callable[..., tuple[int, str]]
STRANGERS = "nobodys_business"
FORMS = {
    "job.sh": "export XLA_FLAGS={0}\n",
    "job.sbatch": '#!/bin/bash\n#SBATCH -N 2\nXLA_FLAGS="{0}" srun python train.py\n',
    "train.py": 'import os\nos.environ["XLA_FLAGS"] = "{0}"\n',
    "pod.yaml": "env:\n- name: XLA_FLAGS\n  value: {0}\n",
    "Dockerfile": "FROM x\nENV XLA_FLAGS={0}\n",
    "vars.env": "XLA_FLAGS={0}\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The source's own directory; a stranger's secret lies beside that."""
    (tmp_path / "secret").write_text(f"{STRANGERS}:x:0:0 --xla_secret={STRANGERS}\n")
    (tmp_path / "flags").write_text("--xla_a=1 --xla_b=2\n")
    own = tmp_path / "own"
    own.mkdir()
    return own


@pytest.fixture
def said(capsys: Captured) -> Said:
    def call(command: str, *words: str | Path) -> tuple[int, str]:
        code = main(["flags", command, *map(str, words)])
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


@pytest.mark.parametrize("name", FORMS)
def test_a_file_elsewhere_is_not_read_but_said_with_how_to_allow_it(
    name: str, place: Path, said: Said
) -> None:
    source = place / name
    source.write_text(FORMS[name].format(place.parent / "secret"))
    code, text = said("check", source, "--no-probe")
    assert code == 3
    assert STRANGERS not in text
    assert f"{place.parent / 'secret'}" in text
    assert f"--allow {place.parent} includes it" in text
    source.write_text(FORMS[name].format(place.parent / "flags"))
    assert "FLAG101" not in said("check", source, "--no-probe")[1]
    code, text = said("check", source, "--no-probe", "--allow", place.parent)
    assert (code, "--xla_a" in text, "--xla_b" in text) == (1, True, True)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_beside_the_source_is_read_wherever_one_stands(
    name: str, place: Path, said: Said
) -> None:
    (place / "below").mkdir()
    for file in ("x.flags", "below/x.flags"):
        (place / file).write_text("--xla_a=1\n")
        source = place / name
        source.write_text(FORMS[name].format(file))
        assert "FLAG101 error: --xla_a" in said("check", source, "--no-probe")[1]


def test_a_link_out_of_the_directory_leads_nowhere(place: Path, said: Said) -> None:
    (place / "x.flags").symlink_to("../flags")
    (place / "up").symlink_to("..")
    for name in ("x.flags", "up/flags", "../flags", f"{place}/../flags"):
        (place / "job.sh").write_text(f"export XLA_FLAGS={name}\n")
        code, text = said("check", place / "job.sh", "--no-probe")
        assert code == 3
        assert "--xla_a" not in text
        assert "outside the source" in text


def test_the_directory_that_is_to_be_allowed_is_the_one_of_the_file_behind_a_link(
    place: Path, said: Said
) -> None:
    (place / "x.flags").symlink_to("../flags")
    (place / "job.sh").write_text("export XLA_FLAGS=x.flags\n")
    assert (
        f"--allow {place.resolve().parent} includes it"
        in (said("check", place / "job.sh", "--no-probe")[1])
    )


def test_what_is_no_regular_file_of_a_moderate_size_is_not_read(place: Path, said: Said) -> None:
    os.mkfifo(place / "pipe")
    (place / "large").write_text("--xla_a=1 " * (LARGEST // 10 + 1))
    for name, why in (("pipe", "not a regular file"), ("large", "larger than 1 MiB"), (".", "dir")):
        (place / "job.sh").write_text(f"export XLA_FLAGS={name}/\n" if name == "." else
                                      f"export XLA_FLAGS={name}\n")  # fmt: skip
        code, text = said("check", place / "job.sh", "--no-probe")
        assert (code, "FLAG209 error" in text, why in text) == (1, True, True)
    (place / "job.sh").write_text("export XLA_FLAGS=/dev/zero\n")
    assert "regular" in said("check", place / "job.sh", "--no-probe", "--allow", "/dev")[1]
    assert said("check", place / "pipe")[0] == 3
    assert said("check", "/dev/zero")[0] == 3


@pytest.mark.parametrize(
    "content",
    [
        *("{0}", "{0}=1 --xla_a=1", "--xla_a=1 {0}", "--xla_a=1 -{0}=1", "# {0}", "'{0}'"),
        *("\N{EN DASH}{0} --xla_a=1", "--xla_a=1 '{0}"),
    ],
)
def test_of_a_named_file_only_words_are_shown_that_begin_as_flags_do(
    content: str, place: Path, said: Said
) -> None:
    (place / "x.flags").write_text(content.format(STRANGERS))
    (place / "job.sh").write_text("export XLA_FLAGS=x.flags\n")
    for words in (("check", "--no-probe"), ("check", "--fix"), ("check", "--json"), ("render",)):
        _, text = said(words[0], place / "job.sh", *words[1:])
        assert STRANGERS not in text
        assert "x.flags" in text
    with pytest.raises(CounterpointError) as raised:
        load_settings(place / "job.sh")
    assert STRANGERS not in str(raised.value)


def test_settings_that_are_to_be_applied_name_files_beside_them_only(place: Path) -> None:
    (place / "job.sh").write_text(f"export XLA_FLAGS={place.parent / 'flags'}\n")
    with pytest.raises(CounterpointError, match=str(place.parent / "flags")):
        load_settings(place / "job.sh")
    (place / "x.flags").write_text("--xla_a=1\n")
    (place / "job.sh").write_text(f"export XLA_FLAGS={place / 'x.flags'}\n")
    assert load_settings(place / "job.sh").flags == {"xla_a": "1"}


def test_what_the_user_says_may_name_any_file_and_shows_no_more_of_it(
    place: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, secret = place.parent / "flags", place.parent / "secret"
    assert "--xla_a" in said("check", f"XLA_FLAGS={flags}", "--no-probe")[1]
    assert STRANGERS not in said("check", f"XLA_FLAGS={secret}", "--no-probe")[1]
    monkeypatch.setenv("XLA_FLAGS", str(flags))
    assert "--xla_a" in said("check", "--env", "--no-probe")[1]
    monkeypatch.setenv("XLA_FLAGS", str(secret))
    assert STRANGERS not in said("check", "--env", "--no-probe")[1]
    with pytest.raises(CounterpointError, match="secret:1: a word") as raised:
        expand_xla_flags(str(secret))
    assert STRANGERS not in str(raised.value)


def test_rendering_says_what_it_did_not_read(place: Path, said: Said) -> None:
    source = place / "job.sh"
    source.write_text(f"export XLA_FLAGS={place.parent / 'flags'}\nexport NCCL_DEBUG=INFO\n")
    code, text = said("render", source)
    assert (code, "--xla_a" in text, "not read: " in text) == (0, False, True)
    code, text = said("render", source, "--allow", place.parent)
    assert (code, "--xla_a" in text, "not read: " in text) == (0, True, False)
    assert said("render", source, "--allow", place.parent / "none")[0] == 2


PROFILE = "--xla_gpu_pgle_profile_file_or_directory_path"


def remarks(said: Said, source: Path, *words: str | Path) -> list[str]:
    text = said("check", source, "--no-probe", "--select", "FLAG209", *words)[1]
    return [line.replace(str(source), "") for line in text.splitlines() if ": FLAG209 " in line]


@pytest.mark.parametrize("flag", [PROFILE, "--xla_dump_to"])
@pytest.mark.parametrize("name", ["{0}/secret", "../secret", "x.link", "up/secret"])
def test_nothing_tells_whether_a_file_elsewhere_is_there(
    flag: str, name: str, place: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "x.link").symlink_to("../secret")
    (place / "up").symlink_to("..")
    (place / "job.sh").write_text(f"export XLA_FLAGS={flag}={name.format(place.parent)}\n")
    with_it = remarks(said, place / "job.sh")
    (place.parent / "secret").unlink()
    without = remarks(said, place / "job.sh")
    (place.parent / "secret").mkdir()
    assert with_it == without == remarks(said, place / "job.sh")
    if flag == PROFILE:
        assert with_it[0].endswith(f"--allow {place.parent} has it checked, too")
        (place.parent / "secret").rmdir()
        (found,) = remarks(said, place / "job.sh", "--allow", place.parent)
        assert f"{name.format(place.parent)} does not exist" in found


@pytest.mark.parametrize("name", ["x.link", "{0}/far", "{0}/linked/far"])
def test_a_link_elsewhere_is_not_followed_for_a_message(name: str, place: Path, said: Said) -> None:
    (place / "x.link").symlink_to("../far")
    (place.parent / "far").symlink_to(f"/{STRANGERS}/x")
    (place.parent / "linked").symlink_to(f"/{STRANGERS}")
    (place / "job.sh").write_text(f"export XLA_FLAGS={name.format(place.parent)}\n")
    assert STRANGERS not in said("check", place / "job.sh", "--no-probe")[1]


def test_files_beside_the_source_and_those_that_the_user_names_are_looked_for(
    place: Path, said: Said
) -> None:
    (place / "step.pbtxt").touch()
    (place / "job.sh").write_text(f"export XLA_FLAGS={PROFILE}=step.pbtxt\n")
    assert remarks(said, place / "job.sh", "--allow", place) == []
    typed = said("check", f"{PROFILE}={place.parent}/none.pbtxt", "--no-probe")[1]
    assert f"{place.parent}/none.pbtxt does not exist" in typed
