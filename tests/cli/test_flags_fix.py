"""`counterpoint flags check --fix` and `--diff`: what is written where, and what stays as it is."""

from __future__ import annotations

import io
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import main

Captured = pytest.CaptureFixture[str]

OLD, NEW = "--xla_gpu_graph_level=0", "--xla_gpu_enable_command_buffer="
JOB = (
    "#!/bin/bash\n#SBATCH --nodes=2\n\n# Flags, and why.\n"
    'export XLA_FLAGS="--xla_dump_to=$OUT/x  {0} \\\n  --xla_gpu_autotune_level=3"  # keep\n'
    "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9\nsrun python train.py  \n"
)


def checked(*words: str | Path, every: bool = True) -> int:
    known = ("--no-probe", "--jaxlib", "0.10.2", *(["--all"] if every else []))
    return main(["flags", "check", *map(str, words), *known])


def mended(text: str) -> str:
    return text.format(NEW).replace("XLA_PYTHON_CLIENT", "XLA_CLIENT")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text(JOB.format(OLD))
    path.chmod(0o750)
    return path


class TestTheFile:
    def test_it_is_edited_and_what_was_changed_is_printed(
        self, job: Path, capsys: Captured
    ) -> None:
        assert checked(job, "--fix") == 0
        said = capsys.readouterr()
        assert job.read_text() == mended(JOB)
        assert stat.S_IMODE(job.stat().st_mode) == 0o750
        assert said.out.splitlines()[:2] == [
            f"fixed: {job}:5: FLAG102: {OLD}: now {NEW}",
            (
                f"fixed: {job}:7: FLAG502: XLA_PYTHON_CLIENT_MEM_FRACTION=0.9:"
                " now XLA_CLIENT_MEM_FRACTION=0.9"
            ),
        ]
        assert f"{job}: 2 problems fixed\n" in said.err

    def test_what_is_not_shown_is_not_changed(self, job: Path, capsys: Captured) -> None:
        assert checked(job, every=False) == 1
        assert "FLAG502" not in capsys.readouterr().out
        assert checked(job, "--fix", every=False) == 0
        assert job.read_text() == JOB.format(NEW)

    @pytest.mark.parametrize("flag", [OLD, "--xla_no_such_{0}=1"])
    def test_each_of_many_settings_is_fixed_at_once(self, flag: str, tmp_path: Path) -> None:
        path = tmp_path / "many.sh"
        lines = [f"XLA_FLAGS='{flag} --xla_dump_to=/a{{0}}' python a{{0}}.py\n"] * 70
        path.write_text("".join(line.format(number) for number, line in enumerate(lines)))
        assert checked(path, "--fix") == 0
        fixed = path.read_text()
        assert "graph_level" not in fixed
        assert "no_such" not in fixed
        assert len(fixed.splitlines()) == len(lines)
        checked(path, "--fix")
        assert path.read_text() == fixed

    def test_a_second_fix_changes_nothing_and_does_not_write(
        self, job: Path, capsys: Captured
    ) -> None:
        checked(job, "--fix")
        before = job.stat().st_ino
        capsys.readouterr()
        assert checked(job, "--fix") == 0
        assert job.stat().st_ino == before
        assert f"{job}: nothing fixed\n" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text.replace("\n", "\r\n"),
            lambda text: text.replace("\n", "\r\n", 3),
            lambda text: text.removesuffix("\n"),
            lambda text: "\ufeff" + text,
            lambda text: text.replace("why", "wh\udcff\udcfey"),
            lambda text: text.replace("why", "wo\u0308rk \u2028 \x0c \x85"),
        ],
        ids=["crlf", "mixed", "no newline", "mark", "not utf-8", "odd line ends"],
    )
    def test_no_other_byte_changes(self, change: Callable[[str], str], tmp_path: Path) -> None:
        path = tmp_path / "job.sh"
        path.write_bytes(change(JOB.format(OLD)).encode(errors="surrogateescape"))
        assert checked(path, "--fix") == 0
        assert path.read_bytes() == change(mended(JOB)).encode(errors="surrogateescape")

    def test_a_symbolic_link_stays_one(self, job: Path, tmp_path: Path) -> None:
        link = tmp_path / "link.sh"
        link.symlink_to(job)
        assert checked(link, "--fix") == 0
        assert link.is_symlink()
        assert job.read_text() == mended(JOB)

    def test_a_protected_one_is_refused_before_anything_is_written(
        self, job: Path, capsys: Captured
    ) -> None:
        job.chmod(0o500)
        assert checked(job, "--fix") == 2
        said = capsys.readouterr().err
        assert f"{job}: not writable" in said
        assert "--diff" in said
        assert job.read_text() == JOB.format(OLD)

    def test_a_problem_without_a_safe_fix_is_left_and_fails(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        path = tmp_path / "train.py"
        text = (
            'import os\nlevel = "0"\nos.environ["XLA_FLAGS"] = "--xla_gpu_graph_level=" + level\n'
        )
        path.write_text(text)
        assert checked(path, "--fix") == 1
        said = capsys.readouterr()
        assert path.read_text() == text
        (line,) = said.out.splitlines()
        assert line.startswith(
            f"not fixed (the rest of its line depends on it): {path}:3: FLAG102 "
        )

    def test_a_fix_that_is_refused_fails_even_if_it_is_only_a_note(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        path = tmp_path / "job.sh"
        path.write_text(
            "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9\n"
            "python a.py --memory $XLA_PYTHON_CLIENT_MEM_FRACTION\n"
        )
        assert checked(path, "--fix") == 1
        assert "not fixed (line 2 reads it or hands it on, too): " in capsys.readouterr().out


class TestOutput:
    def test_another_file_is_a_script_that_still_launches(
        self, job: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        out = tmp_path / "fixed.sh"
        assert checked(job, "--fix", "-o", out) == 0
        assert out.read_text() == mended(JOB)
        assert os.access(out, os.X_OK)
        assert job.read_text() == JOB.format(OLD)
        assert subprocess.run(["/bin/bash", "-n", str(out)], check=False).returncode == 0
        capsys.readouterr()
        assert checked(out) == 0

    def test_nothing_is_overwritten_unasked(
        self, job: Path, tmp_path: Path, capsys: Captured
    ) -> None:
        other = tmp_path / "other.sh"
        other.write_text("")
        assert checked(job, "--fix", "-o", job, "--force") == 2
        assert "this is the source" in capsys.readouterr().err
        assert checked(job, "--fix", "-o", other) == 2
        assert "--force overwrites it" in capsys.readouterr().err

    def test_a_diff_is_what_patch_takes_and_nothing_is_written(
        self, job: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for text in (JOB.format(OLD), JOB.format(OLD).replace("\n", "\r\n").rstrip()):
            job.write_bytes(text.encode())
            assert checked("job.sh", "--diff") == 1
            said = capsys.readouterr()
            assert job.read_bytes() == text.encode()
            assert said.out.startswith("--- job.sh\n+++ job.sh\n@@ -")
            assert checked("job.sh", "--fix", "-o", "new.sh", "--force") == 0
            patch = ["patch", "--binary", "-s", "job.sh"]
            subprocess.run(patch, input=said.out.encode(), check=True)
            assert job.read_bytes() == (tmp_path / "new.sh").read_bytes()
            capsys.readouterr()

    def test_a_diff_of_a_clean_file_is_empty_and_passes(self, job: Path, capsys: Captured) -> None:
        job.write_text(mended(JOB))
        assert checked(job, "--diff") == 0
        assert capsys.readouterr().out == ""

    def test_of_stdin_and_of_flags_the_result_is_printed(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Stdin:
            buffer = io.BytesIO(JOB.format(OLD).encode())

        monkeypatch.setattr("sys.stdin", Stdin)
        assert checked("-", "--fix") == 0
        assert capsys.readouterr().out == mended(JOB)
        assert checked(OLD, "--fix") == 0
        assert capsys.readouterr().out == f"{NEW}\n"

    def test_without_any_source_that_is_what_is_said(self, capsys: Captured) -> None:
        assert checked("--fix") == 2
        assert "no settings were given" in capsys.readouterr().err

    @pytest.mark.parametrize("words", [["--env"], ["auto-pgle"], ["pid:1"]])
    def test_what_is_no_text_is_refused(self, words: list[str], capsys: Captured) -> None:
        assert checked(*words, "--fix") == 2
        assert "--fix edits a file, and this source is none" in capsys.readouterr().err


PIPELINED = [
    f"--xla_gpu_enable_pipelined_{kind}=true"
    for kind in ("all_gather", "all_reduce", "reduce_scatter")
]
ALL_OFF = "--xla_gpu_enable_pipelined_collectives=false"


@pytest.mark.parametrize("flags", [[*PIPELINED, ALL_OFF], [ALL_OFF, *PIPELINED]])
def test_a_fix_keeps_what_a_removed_flag_never_touched(flags: list[str], capsys: Captured) -> None:
    assert checked(" ".join(flags), "--fix") == 0
    left = capsys.readouterr().out
    assert left.split() == PIPELINED[:2]  # the third is the default
    assert checked(ALL_OFF) == 1
    (told,) = capsys.readouterr().out.splitlines()
    assert "FLAG102" in told
    assert "=false" not in told


def test_a_fix_does_not_choose_between_two_wishes(capsys: Captured) -> None:
    both = [ALL_OFF.replace("false", "true"), PIPELINED[2].replace("true", "false")]
    assert checked(" ".join(both), "--fix") == 1
    assert capsys.readouterr().out.split() == both


def fixed_text(path: Path, text: str) -> str:
    path.write_text(text)
    checked(path, "--fix")
    return path.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "two.sh",
            'XLA_FLAGS="{0}" NCCL_DEBUG=INFO python a.py\nXLA_FLAGS="{0}" python b.py\n',
        ),
        ("Dockerfile", 'FROM x\n# why\nENV XLA_FLAGS="{0}" \\\n    A=b\nCMD python a.py\n'),
        (
            "pod.yaml",
            (
                "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n"
                "    env: [{{name: NCCL_DEBUG, value: INFO}}, {{name: XLA_FLAGS, value: '{0}'}}]\n"
                "  - name: b\n    env:\n    - name: XLA_FLAGS\n      value: {0}\n"
            ),
        ),
        (
            "compose.yaml",
            (
                "services:\n  a:\n    environment:\n      - XLA_FLAGS={0} --xla_dump_to=/a\n"
                "      - NCCL_DEBUG=INFO\n  b:\n    environment:\n      XLA_FLAGS: '{0}'\n"
            ),
        ),
        ("env.yaml", "env:\n  NCCL_DEBUG: null\n  XLA_FLAGS: >-\n    {0}\n    --xla_dump_to=/a\n"),
        ("values.yaml", "env:\n  XLA_FLAGS: '{0}'\n  NAME: {{{{ .Values.name }}}}\n"),
        (
            "page.md",
            (
                "Not `{0}`:\n\n```bash\nexport XLA_FLAGS={0}\n```\n\n"
                "- ```sh\n  XLA_FLAGS={0} python x\n"
            ),
        ),
        (
            "book.ipynb",
            (
                '{{"cells": [\n  {{"cell_type": "code", "source": [\n'
                '    "import os\\n",\n    "os.environ[\\"XLA_FLAGS\\"] = \\"{0}\\"\\n",\n'
                '    "print(1)"\n  ]}}\n], "nbformat": 4}}\n'
            ),
        ),
        *(
            (
                "train.py",
                f'import os\nplace = os.getcwd()\nos.environ["XLA_FLAGS"] = {value}\nprint(1)\n',
            )
            for value in (
                'os.environ.get("XLA_FLAGS", "") + " {0}"',
                'f"{{place}} {0} --xla_dump_to={{place}}"',
                '" ".join([os.environ["XLA_FLAGS"], "{0}", "--xla_dump_to=" + place])',
            )
        ),
    ],
    ids=lambda text: text if text.count(".") == 1 and " " not in text else "",
)
def test_each_form_is_edited_where_the_setting_stands(name: str, text: str, tmp_path: Path) -> None:
    """What one container, command or block sets is no setting of another."""
    kept = text.replace("Not `{0}`", f"Not `{OLD}`")  # a sentence is no setting
    assert fixed_text(tmp_path / name, text.format(OLD)) == kept.format(NEW)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.sh", "export A=1 NCCL_NVLS_ENABLE=2\npython x\n", "export A=1\npython x\n"),
        ("a.sh", "NCCL_NVLS_ENABLE=2 A=1 python x\n", "A=1 python x\n"),
        ("a.sh", "export NCCL_NVLS_ENABLE=2  # why\npython x\n", "python x\n"),
        ("a.sh", "export NCCL_NVLS_ENABLE=2; python x\n", "python x\n"),
        (
            "a.sh",
            "if a; then\n  export NCCL_NVLS_ENABLE=2\nfi\npython x\n",
            "if a; then\n  :\nfi\npython x\n",
        ),
        (
            "a.sh",
            "mpirun -np 2 \\\n  -x NCCL_DEBUG=WARN \\\n  -x NCCL_NVLS_ENABLE=2 \\\n  python x\n",
            "mpirun -np 2 \\\n  -x NCCL_DEBUG=WARN \\\n  python x\n",
        ),
        (
            "a.sh",
            'export XLA_FLAGS="--xla_dump_to=/a \\\n  --xla_no=1"\npython x\n',
            'export XLA_FLAGS="--xla_dump_to=/a \\\n  "\npython x\n',
        ),
        (
            "a.sh",
            "export XLA_FLAGS=--xla_dump_to=/a\\ --xla_no=1\npython x\n",
            None,
        ),
        (
            "a.sh",
            'F=(\n  "--xla_dump_to=/a"\n  "--xla_no=1"\n)\nXLA_FLAGS="${F[*]}" python x\n',
            'F=(\n  "--xla_dump_to=/a"\n)\nXLA_FLAGS="${F[*]}" python x\n',
        ),
        ("a.sh", "XLA_FLAGS=--xla_no=1 python x\n", "XLA_FLAGS= python x\n"),
        (
            "Dockerfile",
            "FROM x\nENV A=b \\\n    NCCL_NVLS_ENABLE=2\nRUN y\n",
            "FROM x\nENV A=b\nRUN y\n",
        ),
        (
            "a.yaml",
            "env:\n- name: A\n  value: b\n- name: NCCL_NVLS_ENABLE\n  value: '2'  # why\n# end\n",
            "env:\n- name: A\n  value: b\n# end\n",
        ),
        ("a.yaml", "env:\n  NCCL_NVLS_ENABLE: 2\n  A: b\n", "env:\n  A: b\n"),
        (
            "a.yaml",
            "env: {NCCL_NVLS_ENABLE: 2, NCCL_DEBUG: WARN}\n",
            None,
        ),
        (
            "a.yaml",
            "args: [run, '--xla_flags', '--xla_gpu_graph_level=0']\n",
            None,
        ),
        (
            "a.py",
            'import os\nif 1:\n    os.environ["NCCL_NVLS_ENABLE"] = "2"\n',
            "import os\nif 1:\n    pass\n",
        ),
        (
            "a.py",
            'import os\nos.environ.setdefault("NCCL_NVLS_ENABLE", "2")\nprint(1)\n',
            "import os\nprint(1)\n",
        ),
        (
            "a.py",
            (
                'import os\nflags = [\n    "--xla_no=1",\n    "--xla_dump_to=/a",\n]\n'
                'os.environ["XLA_FLAGS"] = " ".join(flags)\n'
            ),
            (
                'import os\nflags = [\n    "--xla_dump_to=/a",\n]\n'
                'os.environ["XLA_FLAGS"] = " ".join(flags)\n'
            ),
        ),
        (
            "a.py",
            'import os\nos.environ["XLA_FLAGS"] = (\n    "--xla_no=1 "\n    "--xla_dump_to"\n)\n',
            'import os\nos.environ["XLA_FLAGS"] = (\n    "--xla_dump_to"\n)\n',
        ),
        (
            "a.py",
            'import os\nos.environ.setdefault(\n    "XLA_FLAGS",\n    "--xla_no=1",\n)\n',
            'import os\nos.environ.setdefault(\n    "XLA_FLAGS",\n    "",\n)\n',
        ),
        (
            "a.ipynb",
            (
                '{"cells": [{"cell_type": "code", "source": [\n "%env NCCL_NVLS_ENABLE=2\\n",\n'
                ' "print(1)"\n]}]}\n'
            ),
            '{"cells": [{"cell_type": "code", "source": [\n "\\n",\n "print(1)"\n]}]}\n',
        ),
        (  # the second of two values is the default: without it, the first would count
            "a.sh",
            'export XLA_FLAGS="--xla_gpu_triton_gemm_any=false --xla_gpu_triton_gemm_any=true"\n',
            'export XLA_FLAGS=""\n',
        ),
        (
            "a.sh",
            "export NCCL_NVLS_ENABLE=0\npython a\nexport NCCL_NVLS_ENABLE=2\npython b\n",
            None,
        ),
        (
            "a.sh",
            (
                "D=--xla_gpu_triton_gemm_any=$OTHER\n"
                'export XLA_FLAGS="$D --xla_gpu_triton_gemm_any=true"\n'
            ),
            None,
        ),
        (
            "a.toml",
            "# r\n[xla_flags]\nxla_gpu_graph_level = 0  # why\nxla_no = 1\n",
            '# r\n[xla_flags]\nxla_gpu_enable_command_buffer = ""  # why\n',
        ),
        (
            "a.sh",
            "XLA_FLAGS=${MINE:---xla_gpu_graph_level=0} python a\n",
            None,
        ),
        (
            "a.sh",
            "if x; then\n  export XLA_FLAGS='{0} --xla_no=1'\nelse\n  export XLA_FLAGS='{0} '\nfi\n"
            "python a.py\n".replace("{0}", OLD),
            "if x; then\n  export XLA_FLAGS='{0}'\nelse\n  export XLA_FLAGS='{0} '\nfi\n"
            "python a.py\n".replace("{0}", NEW),
        ),
    ],
)
def test_what_is_removed_leaves_no_trace(
    name: str, before: str, after: str | None, tmp_path: Path
) -> None:
    """Or it stays, where only its author knows how to write the line without it."""
    after = before if after is None else after
    assert fixed_text(tmp_path / name, before) == after
    path = tmp_path / "crlf" / name
    path.parent.mkdir()
    path.write_bytes(before.replace("\n", "\r\n").encode())
    checked(path, "--fix")
    assert path.read_bytes() == after.replace("\n", "\r\n").encode()


def test_a_fix_takes_the_flag_that_is_meant_not_one_that_begins_alike(tmp_path: Path) -> None:
    text = 'import os\nos.environ["XLA_FLAGS"] = "{0}"\n'
    path = tmp_path / "train.py"
    path.write_text(
        text.format("--xla_gpu_enable_triton_gemm_int4=true --xla_gpu_enable_triton_gemm")
    )
    assert checked(path, "--fix", "--ignore", "FLAG106") == 0
    assert path.read_text() == text.format("--xla_gpu_enable_triton_gemm_int4=true")


@pytest.mark.parametrize("item", ["{name: NCCL_DEBUG, value: null}", "{name: NCCL_DEBUG, value: }"])
def test_a_variable_that_is_null_is_an_empty_text(
    item: str, tmp_path: Path, capsys: Captured
) -> None:
    text = f"env:\n- {item}\n- {{name: XLA_FLAGS, value: {OLD}}}\n"
    assert fixed_text(tmp_path / "pod.yaml", text) == text.replace(OLD, NEW)
    assert "FLAG503" not in capsys.readouterr().out


def test_the_settings_of_a_script_are_a_list_of_their_own(
    job: Path, tmp_path: Path, capsys: Captured
) -> None:
    job.write_text(f'A="{OLD}"\nexport XLA_FLAGS="$A --xla_gpu_autotune_level=3"\npython x\n')
    assert main(["flags", "effective", str(job), "--as", "env"]) == 0
    assert capsys.readouterr().out == f"XLA_FLAGS={OLD} --xla_gpu_autotune_level=3\n"
    assert main(["flags", "effective", OLD, "--as", "env"]) == 0
    assert capsys.readouterr().out == f"XLA_FLAGS={OLD}\n"
    assert main(["flags", "effective", str(job), "--as", "env", "--module", "x"]) == 2
    assert "compares nothing" in capsys.readouterr().err
    nothing = in_process("flags", "effective", "no.sh", "--as", "env", cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (3, "")
