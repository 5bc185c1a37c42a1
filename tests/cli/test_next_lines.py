"""The last line of every command: one short command that runs as it is pasted, and does more."""

from __future__ import annotations

import ast
import lzma
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from xspace_builder import MS, US, field_bytes, kernel, metadata, nvidia, xspace

from counterpoint.cli.app import main, parse
from counterpoint.cli.predict import kept_whatever_happens
from counterpoint.core.errors import InputError, UsageError
from golden_files import Golden
from package_source import PACKAGE, parsed, sources
from timelines import HLO

MODULE_HLO = Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz"
MODULE = ("jit_step", 7)
LONGEST = 120
"""Characters of a line beyond the words that the user gave."""
SHELL = ("less", "cd", "watch")

PROFILE_FLAG = "xla_gpu_pgle_profile_file_or_directory_path"

Said = Callable[..., str]


def recorded(path: Path, device: int = 0) -> Path:
    path.write_bytes(profile(device))
    return path


@cache
def profile(device: int) -> bytes:
    """Five steps of 1 ms on an H100, with the module that ran."""
    gpu = nvidia(device)
    for at in range(5):
        start = at * MS
        kernel(gpu, "Stream #20", "t", start, 500 * US, op="wrapped_transpose", module=MODULE)
        kernel(gpu, "Stream #20", "g", start + 600 * US, 50 * US, op="custom-call.2", module=MODULE)
    proto = field_bytes(1, lzma.decompress(MODULE_HLO.read_bytes()))
    return xspace(gpu, metadata({MODULE: proto}))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what commands take."""
    monkeypatch.chdir(tmp_path)
    for at in range(8):
        recorded(tmp_path / f"a-host-of-a-long-name-{at}.xplane.pb", at)
    recorded(tmp_path / "a.xplane.pb")
    recorded(tmp_path / "b.xplane.pb")
    (tmp_path / "step.hlo.txt").write_text(HLO)
    (tmp_path / "train.py").touch()
    (tmp_path / "job.sh").write_text("export XLA_FLAGS=--xla_gpu_graph_level=0\npython t.py\n")
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command, and give the line that it ends with."""

    def said(*words: str) -> str:
        capsys.readouterr()
        main(words)
        told = capsys.readouterr()
        all_lines = (line.strip() for line in (told.out + told.err).splitlines())
        lines = [line for line in all_lines if line.startswith("next: ")]
        assert lines, f"{words}: {told.out[-500:]}{told.err}"
        assert len(lines) == 1
        return lines[0].removeprefix("next: ")

    return said


def check(line: str, given: tuple[str, ...]) -> None:
    """It is a command that can be pasted, short, and another one than was just given."""
    words = shlex.split(line.rpartition(" && ")[2], comments=True)
    assert words != ["counterpoint", *given]
    assert len(re.sub("|".join(map(re.escape, sorted(given, key=len)[::-1])), "", line)) <= LONGEST
    if words[0] == "counterpoint":
        parse(words[1:])  # raises what the user would read
    else:
        assert words[0] in SHELL


PROFILE = "a.xplane.pb"
COMMANDS = (
    ("explain", PROFILE),
    ("explain", "a-host*.xplane.pb"),
    ("network", PROFILE),
    ("convert", PROFILE, "kept"),
    ("compare", PROFILE, "b.xplane.pb"),
    ("predict", "step.hlo.txt", "--target", "2xH100"),
    ("predict", "step.hlo.txt", "--target", "2xH100", "--explain"),
    ("predict", "step.hlo.txt", "--target", "2xH100", "--what-if", "hbm=2x"),
    ("predict", "step.hlo.txt", "--target", "2xH100", "--what-if", "hbm=2x", "--explain"),
    ("pgle", "make", PROFILE, "-o", "step.pbtxt"),
    ("calibrate", PROFILE, "--target", "8xH100"),
    ("calibrate", PROFILE, "--target", "8xH100", "-o", "mine.toml"),
    ("runs", "."),
    ("doctor", "--only", "DOC101"),
    ("flags", "check", "job.sh"),
    ("flags", "show", "xla_gpu_enable_pipelined_all_gather"),
    ("flags", "list", "--grep", "pipelined"),
    ("flags", "list", "--grep", "there-is-none"),
    ("flags", "diff", "0.9.2", "0.10.2"),
    ("flags", "recommend", "--for", "fsdp", "--target", "8xH100"),
    ("flags", "render", "job.sh", "--diff", "fsdp"),
    ("flags", "thresholds", "--program", "step.hlo.txt"),
)


@pytest.mark.parametrize("given", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("place")
def test_each_command_ends_in_one_that_can_be_pasted(given: tuple[str, ...], said: Said) -> None:
    check(said(*given), given)


@pytest.mark.usefixtures("place")
def test_those_of_profiles_do_too(said: Said) -> None:
    check(said("pgle", "make", PROFILE, "-o", "step.pbtxt"), (PROFILE, "step.pbtxt"))
    check(said("pgle", "make", "b.xplane.pb", "-o", "b.pbtxt"), ("b.xplane.pb", "b.pbtxt"))
    for given in (
        ("pgle", "show", "step.pbtxt"),
        ("pgle", "check", "step.pbtxt", "--program", PROFILE),
        ("pgle", "diff", "step.pbtxt", "b.pbtxt"),
        ("pgle", "merge", "step.pbtxt", "b.pbtxt", "-o", "both.pbtxt"),
    ):
        check(said(*given), given)


def test_what_a_shell_made_of_a_pattern_is_the_pattern_again(place: Path, said: Said) -> None:
    given = ("explain", *(str(it) for it in sorted(place.glob("a-host*"))))
    line = said(*given)
    pattern = f"{place}/a-host-of-a-long-name-*.xplane.pb"
    assert shlex.split(line, comments=True)[2:] == [pattern]
    (place / "a-host-of-a-long-name-x.xplane.pb").touch()  # now the pattern is more than was named
    assert shlex.split(said(*given), comments=True)[2:] == [*given[1:]]


def test_a_line_is_no_longer_for_many_profiles(place: Path, said: Said) -> None:
    given = ("explain", *(it.name for it in sorted(place.glob("a-host*"))))
    assert len(said(*given)) <= LONGEST + len("a-host-of-a-long-name-*.xplane.pb")


@pytest.mark.parametrize(
    ("network", "links"), [("100G", "nic=2x"), ("200G", "nic=2x,nvlink=2x"), ("400G", "nvlink=2x")]
)
def test_a_prediction_asks_next_for_the_link_that_its_collectives_wait_for(
    network: str, links: str, tmp_path: Path, said: Said
) -> None:
    path = tmp_path / "step.hlo.txt"
    path.write_text(
        "HloModule m, is_scheduled=true, num_partitions=16\n\n"
        "%s (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
        "  ROOT %c = f32[] add(%a, %b)\n}\n\n"
        "ENTRY %main (x: f32[268435456]) -> f32[268435456] {\n"
        "  %x = f32[268435456] parameter(0)\n  ROOT %it = f32[268435456] all-reduce(%x),"
        " channel_id=1, replica_groups=[1,16]<=[16], use_global_device_ids=true, to_apply=%s\n}\n"
    )
    line = said("predict", str(path), "--target", f"2x8xH100:{network}")
    assert shlex.split(line)[shlex.split(line).index("--what-if") + 1] == links


PROGRAMS = (
    *("counterpoint", "pip", "rm", "mv", "mkdir", "less", "ls", "git", "pgrep", "ray"),
    *("scontrol", "scancel", "srun", "sudo", "env", "unset", "command", "nsys", "python"),
)


def literals(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may come to; what is put into them is X."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(str(it.value) if isinstance(it, ast.Constant) else "X" for it in values)
        case ast.IfExp(body=one, orelse=other):
            yield from (*literals(one), *literals(other))
        case ast.BoolOp(values=values):
            yield from (text for it in values for text in literals(it))
        case _:
            pass


def written() -> Iterator[tuple[str, str]]:
    """Every `next` that stands in the source as a text, and where."""
    for path in sources():
        tree = parsed(path)
        named = {
            it.target.id: it.value
            for it in tree.body
            if isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name) and it.value
        }
        for call in (it for it in ast.walk(tree) if isinstance(it, ast.Call)):
            for value in (it.value for it in call.keywords if it.arg == "next"):
                meant = named.get(value.id, value) if isinstance(value, ast.Name) else value
                for text in literals(meant):
                    yield f"{path.relative_to(PACKAGE)}:{value.lineno}", text


def mixed(text: str) -> bool:
    """Whether it is neither one command (or its options) nor one plain sentence."""
    words = re.sub(r"'[^']*'", "quoted", text).split()
    if not words:
        return False
    if words[0].startswith("-") or words[0] in PROGRAMS or words[:2] == ["X", "-m"]:
        prose = any(it in ("or", "and", "then") or it.endswith((",", ";", ":")) for it in words)
        return prose or "`" in text
    inside = r": (counterpoint|nsys|pip) |(counterpoint [a-z ]+|,? or )--?[a-z]|: --[a-z]"
    return re.search(inside, text) is not None


def test_every_next_of_the_source_is_one_command_or_one_sentence() -> None:
    found = list(written())
    assert len(found) > 250
    assert [it for it in found if mixed(it[1])] == []


def is_ours(text: str) -> bool:
    words = [it for it in shlex.split(text.partition(" > ")[0])[1:] if it != "--help"]
    try:
        parse(words)
    except UsageError:
        return False
    return True


def test_those_that_are_ours_are_command_lines() -> None:
    ours = [text for _, text in written() if text.startswith("counterpoint ") and "X" not in text]
    assert len(ours) > 20
    assert [text for text in ours if not is_ours(text)] == []
    assert not is_ours("counterpoint flags list --grep TEXT looks for a name")


@pytest.mark.parametrize(
    "text",
    [
        "--nodes X, or a larger allocation",
        "--target 8xH100, or 8x8xH100:400G for eight hosts of eight",
        "counterpoint tune show X, or -o ANOTHER",
        "leave it out, or --set X=true",
        "record the program on GPUs: counterpoint run -- COMMAND",
        "name the interpreter: --python .venv/bin/python",
        "run `counterpoint flags check --env`",
    ],
)
def test_what_mixes_both_is_found(text: str) -> None:
    assert mixed(text)


NAMED = "it's mine.xplane.pb"
TRAIN = ("--", "python", "train it.py", "--step", "3")
FAILING = (
    ("explain", PROFILE, "--step", "99"),
    ("explain", "--step=99", NAMED),
    ("explain", PROFILE, "-o", "a.md"),
    ("convert", PROFILE, "a.json"),
    ("predict", "step.hlo.txt"),
    ("predict", "step.hlo.txt", "--target", "no such"),
    ("run", "-o", "full of it", *TRAIN),
    ("run", "--ranks", "x", *TRAIN),
    ("run", "--env", "FOO", *TRAIN),
    ("run", "--env", "A=1", "--env==x", "--env", "B=2", *TRAIN),
    ("run", "--set", "", *TRAIN),
    ("run", "--profile-start-step", "5", "--stop-after-steps", "6", *TRAIN),
    ("pgle", "auto", "--runs", "0", *TRAIN),
    ("pgle", "auto", "--no-profile", *TRAIN),
    ("pgle", "manual", "-o", "full of it", "--env", "JAX_PLATFORMS=cuda", *TRAIN),
    ("pgle", "auto", "--env", "A=1", "--env", "JAX_PLATFORMS=cpu", *TRAIN),
    ("tune", "--predict", "step.hlo.txt"),
    ("tune", "--executor", "local", "--nodes", "2", "--arm", "NCCL_DEBUG=INFO", *TRAIN),
    ("flags", "check", "job.sh", "-o", "x"),
    ("flags", "recommend", "--for", "nothing"),
    ("predict", "nothere", "--target", "v5e-8"),
    ("predict", "--target=64x8xH100:400G"),
    ("tune", "--target", "v5e-8", "--", "python3", "train.py"),
    ("tune", "--predict", "x.mlir", "--target", "v5e-8", "--gemm-table", "a.csv"),
    ("predict", "--pgle", "s.pbtxt", "s.py:step", "--target", "v5e-8"),
    ("predict", "s.py:step", "--pgle", "s.pb", "--target", "8xH100"),
    ("predict", "s.py:step", "other", "--target", "8xH100"),
)


def test_an_error_ends_in_what_to_change(
    place: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    recorded(place / NAMED)
    (place / "full of it").mkdir()
    for name in ("full of it/something", "a.md", "a.json", "train it.py"):
        (place / name).touch()
    told: list[str] = []
    for given in FAILING:
        assert main(list(given)) in (2, 3)
        said = capsys.readouterr().err.replace(str(place), "DIR")
        (line,) = re.findall(r"(?m)^  next: (.*)$", said)
        told.append(f"{shlex.join(given)}\n  {line}\n")
    golden("next_lines.txt", "".join(told))


@pytest.mark.parametrize("is_kept", [True, False])
def test_after_a_lowered_step_was_kept_the_same_command_has_to_overwrite_it(
    is_kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "step.mlir.gz"

    def fail() -> None:
        if is_kept:
            path.touch()
        raise InputError("too slow", next="use --timeout 100")

    with pytest.raises(InputError) as caught, kept_whatever_happens(path):
        fail()
    assert caught.value.next == "use --timeout 100" + (" --force" if is_kept else "")
    assert (str(path) in capsys.readouterr().err) is is_kept
