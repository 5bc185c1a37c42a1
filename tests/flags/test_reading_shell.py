"""Shell scripts and Slurm jobs as sources: followed to their end, never run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoint.core.errors import CounterpointError
from counterpoint.flags.parse.source import read_source, read_text
from counterpoint.flags.parsed import IssueKind
from counterpoint.flags.settings import Channel, Layout
from flag_sources import flags, issue, kinds, lines, script


def layout(hosts: int, processes: int, gpus: int) -> Layout:
    return Layout(hosts=hosts, processes_per_host=processes, gpus_per_process=gpus)


BASH = shutil.which("bash") or ""


@pytest.mark.parametrize(
    "text",
    [
        "export XLA_FLAGS='--xla_a=1 --xla_b=2'",
        'XLA_FLAGS="--xla_a=1"\nexport XLA_FLAGS+=" --xla_b=2"',
        'A="--xla_a=1"\nexport XLA_FLAGS="$A --xla_b=2"',
        'export XLA_FLAGS=--xla_a=1\nexport XLA_FLAGS="${XLA_FLAGS:-} --xla_b=2"',
        'export XLA_FLAGS="${XLA_FLAGS} --xla_a=1"\nXLA_FLAGS="$XLA_FLAGS --xla_b=2"',
        'F=(--xla_a=1\n  --xla_b=2)  # both\nexport XLA_FLAGS="${F[*]}"',
        'export XLA_FLAGS="--xla_a=1 \\\n  --xla_b=2"',
        'export XLA_FLAGS="--xla_a=1\n  --xla_b=2"',
        "declare -x XLA_FLAGS='--xla_a=1 --xla_b=2'",
        "export F=${F:---xla_a=1 --xla_b=2}\nexport XLA_FLAGS=$F",
        "export XLA_FLAGS=$'--xla_a=1\\n--xla_b=2'",
        "export XLA_FLAGS=$'--xla_a=1\\xa\\x9--xla_b=2'",
        "set -a\nXLA_FLAGS='--xla_a=1 --xla_b=2'",
        "XLA_FLAGS='--xla_a=1 --xla_b=2' exec env",
        "env -u FOO XLA_FLAGS='--xla_a=1 --xla_b=2' env",
        "XLA_FLAGS=--xla_a=1 bash -c 'XLA_FLAGS=\"$XLA_FLAGS --xla_b=2\" env'",
        "false || export XLA_FLAGS='--xla_a=1 --xla_b=2'",
        "if true; then export XLA_FLAGS='--xla_a=1 --xla_b=2'; fi",
        "case x in (y) exit;; x) export XLA_FLAGS='--xla_a=1 --xla_b=2';; esac",
        "for i in 1; do export XLA_FLAGS='--xla_a=1 --xla_b=2'; done",
        "export XLA_FLAGS='--xla_a=1 --xla_b=2' # it's a comment",
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_a_script_comes_to_what_bash_makes_of_it(text: str) -> None:
    assert flags(script(text)) == [("xla_a", "1"), ("xla_b", "2")]
    if BASH and " env" not in text:
        real = subprocess.run(
            [BASH, "-c", text + "\nenv -0"],
            capture_output=True,
            check=True,
            env={"PATH": os.environ["PATH"]},
        ).stdout.decode()
        values = dict(entry.split("=", 1) for entry in real.split("\0") if "=" in entry)
        assert values["XLA_FLAGS"].split() == ["--xla_a=1", "--xla_b=2"]


def test_each_flag_of_a_value_has_its_own_line() -> None:
    written = script(
        'BASE="--xla_a=1"', "", 'export XLA_FLAGS="$BASE', "  --xla_b=2 \\", '  --xla_c=3"'
    )
    assert lines(written) == [("xla_a", 1), ("xla_b", 4), ("xla_c", 5)]


def test_what_needs_a_shell_is_an_issue_and_the_rest_of_the_value_is_read() -> None:
    written = script(
        'export XLA_FLAGS="--xla_a=$N $(cat more) --xla_b=2 ${OTHER} --xla_c=x$((RANDOM+1))"'
    )
    assert kinds(written) == [IssueKind.UNKNOWABLE] * 4
    assert [one.text for one in written.issues] == [
        "--xla_a=$N",
        "$(cat more)",
        "${OTHER}",
        "--xla_c=x$((RANDOM+1))",
    ]
    assert [(one.name, one.value, one.known) for one in written.given] == [
        ("xla_a", "$N", False),
        ("xla_b", "2", True),
        ("xla_c", "x$((RANDOM+1))", False),
    ]
    assert written.settings.flags == {"xla_b": "2"}


def test_a_second_export_that_drops_the_first_is_an_issue() -> None:
    written = script("export XLA_FLAGS=--xla_a=1", "export XLA_FLAGS=--xla_b=2", "python x.py")
    found = issue(written)
    assert (found.kind, found.place.line) == (IssueKind.OVERWRITTEN, 2)
    assert found.why.endswith("of line 1: --xla_a")
    assert found.suggestion == 'XLA_FLAGS="${XLA_FLAGS} --xla_b=2 ..."'
    assert flags(written) == [("xla_b", "2")]


def test_setting_the_same_flags_anew_throws_nothing_away() -> None:
    assert not script("export XLA_FLAGS=--xla_a=1", "export XLA_FLAGS=--xla_a=2").issues


def test_flags_for_the_next_program_throw_nothing_away() -> None:
    written = script(
        "export XLA_FLAGS=--xla_a=1", "python a.py", "export XLA_FLAGS=--xla_b=1", "python b.py"
    )
    assert not written.issues
    assert any(note.startswith("line 3: XLA_FLAGS is set again") for note in written.notes)


def test_branches_that_exclude_each_other_throw_nothing_away() -> None:
    written = script(
        "if x; then", "  export XLA_FLAGS=--xla_a=1", "else", "  export XLA_FLAGS=--xla_b=1", "fi"
    )
    assert not written.issues
    assert [note.partition(" is")[0] for note in written.notes] == [
        "line 4: XLA_FLAGS",
        "lines 2 and 4: XLA_FLAGS",
    ]
    assert [flags(one) for one in written.programs] == [[("xla_b", "1")], [("xla_a", "1")]]


def test_each_program_of_a_script_has_its_own_flags() -> None:
    written = script("XLA_FLAGS=--xla_a=1 python a.py", "XLA_FLAGS=--xla_b=1 python b.py")
    assert [flags(one) for one in written.programs] == [[("xla_b", "1")], [("xla_a", "1")]]
    again = script(
        "export XLA_FLAGS=--xla_a=1", "python a.py", "export XLA_FLAGS=--xla_b=1", "python b.py"
    )
    assert [flags(one) for one in again.programs] == [[("xla_b", "1")], [("xla_a", "1")]]


def test_what_is_not_read_is_said() -> None:
    written = script(
        "cat <<'EOF' > job.sh",
        'export XLA_FLAGS="--xla_heredoc',
        "EOF",
        "source ./more.env",
        "source venv/bin/activate",
        'eval "$(more)"',
        "python - <<EOF",
        "os.environ['x']",
        "EOF",
        "export XLA_FLAGS=--xla_a=1",
    )
    assert flags(written) == [("xla_a", "1")]
    heredoc, *others, named = written.unread
    assert heredoc.startswith("line 1: ")
    assert named.startswith("xla_heredoc: ")
    assert others == [
        "line 4: source ./more.env",
        "line 5: source venv/bin/activate",
        "line 6: eval $(more)",
    ]


def test_a_function_is_read_in_its_place_and_what_it_sets_is_conditional() -> None:
    written = script(
        "run() {",
        "  local plugin=$1",
        "  export XLA_FLAGS=--xla_a=1 LEVEL=3",
        "  mpirun -np 2 -x NCCL_DEBUG=INFO test",
        "}",
        "LEVEL=1",
        "export NCCL_A=$LEVEL",
        "JAX_ENABLE_PGLE=true run libx.so",
    )
    assert not written.unread
    assert [(one.name, one.value, one.conditional) for one in written.given] == [
        ("xla_a", "1", True),
        ("NCCL_DEBUG", "INFO", True),
        ("LEVEL", "1", False),
        ("NCCL_A", "1", False),
        ("JAX_ENABLE_PGLE", "true", False),
    ]


def test_arrays_and_bare_references_are_several_words() -> None:
    written = script(
        'ARGS=(-x NCCL_PROTO=LL "-x")',
        'ARGS+=("NCCL_NVLS_ENABLE=0")',
        'MORE="-x NCCL_ALGO=Ring -np 4"',
        'mpirun $MORE "${ARGS[@]}" python x.py',
    )
    assert written.settings.variables == {
        "NCCL_PROTO": "LL",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_ALGO": "Ring",
    }


def test_many_settings_of_one_block_are_doubted_together() -> None:
    written = script(
        "if x; then", *(f"  export NCCL_{letter}=1" for letter in "ABCDE"), "fi", "python x.py"
    )
    (note,) = written.notes
    assert note.startswith("lines 2 to 6: NCCL_A, NCCL_B, NCCL_C and 2 more ")


def test_a_variable_that_is_passed_on_is_no_riddle() -> None:
    assert not script("mpirun -x NCCL_PROTO=$NCCL_PROTO -x NCCL_ALGO=${NCCL_ALGO} x").issues


def test_a_heredoc_that_goes_somewhere_is_read_and_what_it_sets_is_conditional() -> None:
    written = script(
        "cat > $DIR/each.sh <<'EOL'",
        "export NCCL_PROTO=$PROTO",
        "EOL",
        "ssh host bash <<-EOF",
        "\texport NCCL_ALGO=Ring",
        "\tEOF",
        "cat <<A > notes",
        "nothing is set here",
        "A",
        ": <<COMMENT",
        "export NCCL_NTHREADS=1",
        "COMMENT",
        "cat <<HELP",
        "  NCCL_MAX_NCHANNELS=4 makes it slow",
        "HELP",
        "export NCCL_DEBUG=INFO",
    )
    assert [(one.name, one.place.line, one.conditional) for one in written.given] == [
        ("NCCL_PROTO", 2, True),
        ("NCCL_ALGO", 5, True),
        ("NCCL_DEBUG", 16, False),
    ]
    assert not written.given[0].known
    assert written.unread[0] == "line 13: the text of a heredoc"


def test_a_shift_to_the_left_is_no_heredoc() -> None:
    assert flags(script("(( A = 1 << 2 ))", "export XLA_FLAGS=--xla_a=1")) == [("xla_a", "1")]


@pytest.mark.parametrize("expression", ["A/B", "X+1", "1/0", "A=1", ""])
def test_arithmetic_is_left_to_the_shell(expression: str) -> None:
    written = script("A=8", f"export NCCL_X=$(({expression}))")
    assert kinds(written) == [IssueKind.UNKNOWABLE]
    assert not written.settings.variables


@pytest.mark.parametrize(
    "line",
    ["(( A = 2 ))", "let A=2", "printf -v A 2", "read A <<< 2", "A[0]=2", "for A in 2; do :; done"],
)
def test_what_a_shell_works_out_is_not_known_from_there_on(line: str) -> None:
    assert not script("A=1", line, "export NCCL_X=$A").settings.variables


def test_flags_that_are_handed_to_libtpu_are_its_own() -> None:
    written = script(
        'export XLA_FLAGS="--xla_tpu_a=1"',
        "CMD=\"export LIBTPU_INIT_ARGS='${XLA_FLAGS}' && python x.py\"",
        'xpk workload create --command="$CMD"',
    )
    (one,) = written.given
    assert (one.channel, one.name) == (Channel.LIBTPU_INIT_ARGS, "xla_tpu_a")
    (note,) = written.notes
    assert note.startswith("line 2: XLA_FLAGS ")
    assert "LIBTPU_INIT_ARGS" in note


def test_bazel_hands_variables_to_tests() -> None:
    written = script("bazel test --test_env=XLA_FLAGS=--xla_a=1 --action_env=NCCL_DEBUG=WARN //x")
    assert flags(written) == [("xla_a", "1")]
    assert written.settings.variables == {"NCCL_DEBUG": "WARN"}


def test_a_flag_outside_the_quotes_is_an_issue() -> None:
    found = issue(script("export XLA_FLAGS=--xla_a=1 --xla_b=2"))
    assert (found.kind, found.text) == (IssueKind.STRAY, "--xla_b=2")
    assert "not quoted" in found.why


def test_a_default_is_taken_and_said() -> None:
    written = script("export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-8388608}")
    assert written.settings.variables == {"NCCL_BUFFSIZE": "8388608"}
    (note,) = written.notes
    assert note.startswith("line 1: NCCL_BUFFSIZE is read as unset")


def test_a_variable_that_is_not_exported_is_said() -> None:
    written = script("export NCCL_DEBUG=INFO", "XLA_FLAGS=--xla_a=1", "python x.py")
    assert any(note.startswith("line 2: ") and "not exported" in note for note in written.notes)
    alone = script("XLA_FLAGS=--xla_a=1", "python x.py")
    (note,) = alone.notes
    assert note.startswith("line 1: XLA_FLAGS ")
    assert not script("XLA_FLAGS=--xla_a=1").notes


def test_an_export_of_what_a_command_prints_is_not_read_and_said() -> None:
    written = script("export XLA_FLAGS=--xla_a=1", "export $(cat .env | xargs)")
    assert flags(written) == [("xla_a", "1")]
    assert written.unread == ("line 2: export $(cat .env | xargs)",)


def test_arguments_in_a_case_leave_the_default_known() -> None:
    written = script(
        "FRACTION=0.9",
        "while true; do",
        '  case "$1" in',
        '    -m | --mem) FRACTION="$2"; shift 2 ;;',
        "    *) break ;;",
        "  esac",
        "done",
        "export XLA_CLIENT_MEM_FRACTION=$FRACTION",
    )
    assert written.settings.variables == {"XLA_CLIENT_MEM_FRACTION": "0.9"}
    assert not written.issues


def test_a_slurm_job_tells_its_layout() -> None:
    written = script(
        "#!/bin/bash",
        "#SBATCH -N 4  # hosts",
        "#SBATCH --ntasks-per-node=8 --gres=gpu:h100:8",
        "export XLA_FLAGS=--xla_a=1",
        "srun -c 12 python train.py",
    )
    assert written.form == "slurm"
    assert written.layout == Layout(
        hosts=4, processes_per_host=8, gpus_per_process=1, cpus_per_process=12
    )
    assert written.settings.layout == written.layout


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("mpirun -np 16 --map-by ppr:8:node python x", Layout(hosts=2, processes_per_host=8)),
        ("srun --nodes=2 --ntasks=4 --gpus=16 x", layout(2, 2, 4)),
        ("srun -N2 -n16 --gpus-per-task 1 x", layout(2, 8, 1)),
        ("srun --nodes=1-4 x", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_launchers_tell_their_layout(command: str, wanted: Layout | None) -> None:
    assert script(command).layout == wanted


def test_launchers_hand_variables_on() -> None:
    written = script(
        "srun --export=ALL,NCCL_DEBUG=INFO,JAX_ENABLE_PGLE=true python x.py",
    )
    assert written.settings.variables == {"NCCL_DEBUG": "INFO", "JAX_ENABLE_PGLE": "true"}
    assert {one.via for one in written.given} == {"srun --export"}
    written = script("mpirun -np 8 -x XLA_FLAGS='--xla_a=1 --xla_b=2' python x.py")
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2")]
    written = script("docker run -e NCCL_DEBUG=INFO --env=NCCL_PROTO=LL image python x.py")
    assert written.settings.variables == {"NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL"}


def test_srun_without_all_keeps_the_flags_back() -> None:
    found = issue(script("export XLA_FLAGS=--xla_a=1", "srun --export=NCCL_DEBUG=INFO x"))
    assert found.kind is IssueKind.OVERWRITTEN
    assert found.why.endswith("of line 1")
    assert found.suggestion == "--export=ALL,NCCL_DEBUG=INFO"


def test_srun_cuts_a_value_at_its_comma() -> None:
    written = script("srun --export=ALL,XLA_FLAGS=--xla_disable_hlo_passes=a,b-c x")
    assert flags(written) == [("xla_disable_hlo_passes", "a")]
    assert issue(written).text == "b-c"


def test_maxtext_takes_compiler_options_on_its_command_line() -> None:
    (one,) = script('python -m maxtext.train compile_xla_flags="--xla_a=1"').given
    assert (one.channel, one.via) == (Channel.COMPILER_OPTIONS, "MaxText compile_xla_flags")


def test_what_read_asks_for_is_no_setting() -> None:
    assert not script("while IFS='=' read -r NCCL_A B; do :; done <<< \"$X\"").given


STATEMENTS = (
    *("export NCCL_A=1", "NCCL_A+=x", 'export NCCL_A="$NCCL_A y"', "unset NCCL_A", "set -a"),
    *("V=a", 'V="$V b"', "V+=1", "V=", "unset V", "W=$V", "V=x 2>/dev/null", "IFS=, true"),
    *("export NCCL_B=${V:-d}", 'export NCCL_B="${V:+z}"', "export NCCL_B=${V-u}$V${V:=k}"),
    *("export NCCL_B=\"${V:-'s t'}\"", "export NCCL_B=${V:-it\\'s}", "export NCCL_B=${V:-${W:-x}}"),
    *('F=(a "b c" $V)', 'F+=(d "$V")', "F[1]=z", 'export NCCL_C="${F[*]}"', "export NCCL_C=$F"),
    *("export NCCL_D='x y'\\ z\"w\"", "export NCCL_D=$'a\\tb\\u0041'", "export NCCL_D=~/x:~/y"),
    *("(( V = 3 ))", "let V=5", "f() { V=9; local W=1; }", "function g { export NCCL_A=fn; }"),
    *("f", "g", "(V=sub; export NCCL_A=sub)", "V=pipe | cat", "V=apart &", "A=1 || V=or"),
    *("if false; then V=q; fi", "for V in 1 2; do W=$V; done", "case a in b) V=c;; a) V=d;; esac"),
    *("false && V=and", "A=1 && V=and", "read V <<< hi", "printf -v V hi", "declare -u V=upper"),
    *(
        "export NCCL_E=$((1+1))",
        "export NCCL_E=a\\\nb",
        'export NCCL_E="a\\\nb"',
        "export NCCL_E=$V",
    ),
    *("export NCCL_F=${V%a}", "export NCCL_F=${#V}", 'export NCCL_F="$(echo hi)"', "local V=3"),
    *(
        "# it's a comment",
        "export NCCL_G=a#b # it's",
        'export "NCCL_G=$V x"',
        "export NCCL_G={a,b}",
    ),
    *(
        "cat >/dev/null <<E\nexport NCCL_A=heredoc\nE",
        "{ V=group; }",
        "[[ -n $V && x < y ]]; V=test",
    ),
)


@pytest.mark.skipif(not BASH, reason="bash is not here")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=7))
def test_a_value_that_is_certain_is_the_one_that_bash_gives(statements: list[str]) -> None:
    text = "\n".join([*statements, "export NCCL_END=1", ""])
    written = script(text)
    if written.notes:  # something is read as if it ran
        return
    real = subprocess.run(
        [BASH, "--norc", "-c", text + "\nenv -0"],
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": "/root"},
    ).stdout.decode()
    values = dict(entry.split("=", 1) for entry in real.split("\0") if "=" in entry)
    for name, value in written.settings.variables.items():
        assert values.get(name) == value, name


WORDS = (
    *("export", "XLA_FLAGS=", '"', "'", "$", "${", "}", "$(", ")", "(", "{", "if", "then", "fi"),
    *("case", "in", "esac", ";;", "do", "done", "<<E", "E", "\n", " ", ";", "|", "--xla_a=1", "\\"),
    *(
        "srun",
        "--export=",
        "bash -c",
        "env",
        "+=",
        "f()",
        "f",
        "$((",
        "))",
        "bash",
        "> f",
        "#",
        "`",
        "NCCL_X=1",
        ",",
        "\v",
        "a=(",
    ),
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_no_script_makes_the_reader_fall_over_or_stand_still(text: str) -> None:
    try:
        read_text(text, "job.sh")
    except CounterpointError as failure:
        assert "unclosed" in failure.what  # noqa: PT017


def test_a_script_on_disk_is_named_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("\n\nexport XLA_FLAGS=--xla_a=1\n")
    (one,) = read_source(path).given
    assert str(one.place) == f"{path}:3"


@pytest.mark.parametrize("launcher", ["uv run", "uv --offline run --extra gpu", "command", "uvx"])
def test_what_starts_another_program_hands_the_variables_on(launcher: str) -> None:
    line = f"XLA_FLAGS=--xla_a=1 {launcher} python train.py"
    assert flags(script(line)) == [("xla_a", "1")]
    assert flags(read_source(line)) == [("xla_a", "1")]
    assert not flags(script(line.replace(launcher, "uv pip install").replace("python", "jax")))
