"""How remarks, notes and errors about settings read, kept whole.

What must be true of them (lines, names, codes, exit status) is asserted where each is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import CounterpointError
from counterpoint.flags.lifecycle import unknown_hint
from counterpoint.flags.lines.line import parse_settings, read_line
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import parse_xla_flags
from golden_files import Golden

GEMM = "xla_gpu_enable_triton_gemm"
THRESHOLD = "xla_gpu_all_reduce_combine_threshold_bytes"

SHELL = {
    "a second export drops the first": (
        f"export XLA_FLAGS=--{GEMM}=false\nexport XLA_FLAGS=--xla_dump_to=/d\npython x.py\n"
    ),
    "each program has its flags": (
        f"export XLA_FLAGS=--{GEMM}=false\npython a.py\nexport XLA_FLAGS=--xla_dump_to=/d\n"
        "python b.py\n"
    ),
    "branches": (
        f"if x; then\n  export XLA_FLAGS=--{GEMM}=false\nelse\n"
        "  export XLA_FLAGS=--xla_dump_to=/d\nfi\n"
    ),
    "many settings in a block": (
        "if x; then\n" + "".join(f"  export NCCL_{it}=1\n" for it in "ABCDE") + "fi\npython x.py\n"
    ),
    "nothing runs it": (
        "cat <<'EOF' > job.sh\nexport XLA_FLAGS=--xla_heredoc\nEOF\n"
        "setup() {\n  export NCCL_PROTO=LL\n}\nsource ./more.env\neval $(more)\n"
        f"export XLA_FLAGS=--{GEMM}=false\nexport $(cat .env | xargs)\n"
    ),
    "passed on to libtpu": (
        'export XLA_FLAGS="--xla_tpu_scoped_vmem_limit_kib=1"\n'
        "CMD=\"export LIBTPU_INIT_ARGS='${XLA_FLAGS}' && python x.py\"\n"
        'xpk workload create --command="$CMD"\n'
    ),
    "a default": "export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-8388608}\n",
    "not exported": f"XLA_FLAGS=--{GEMM}=false\npython x.py\n",
    "outside the quotes": f"export XLA_FLAGS=--{GEMM}=false --xla_dump_to=/d\n",
    "srun without ALL": f"export XLA_FLAGS=--{GEMM}=false\nsrun --export=NCCL_DEBUG=INFO x\n",
    "needs a shell": f'export XLA_FLAGS="--{GEMM}=$N $(cat more)"\n',
    "a flag in quotes": f"export XLA_FLAGS=\"'--{GEMM}=false'\"\n",
    "behind a stray word": f"export XLA_FLAGS='--xla_dump_to=/a b --{GEMM}=false'\n",
    "names a file, to XLA": f"export XLA_FLAGS='foo --{GEMM}=false'\n",
    "a file elsewhere": "export XLA_FLAGS=../elsewhere.flags\n",
    "what XLA reads elsewhere": (
        "export XLA_FLAGS=--xla_gpu_pgle_profile_file_or_directory_path=../a.pbtxt\n"
    ),
    "a missing file": "export XLA_FLAGS=--xla_gpu_pgle_profile_file_or_directory_path=a.pbtxt\n",
    "from before the tables": "export XLA_FLAGS=--xla_gpu_cuda_graph_level=0\n",
    "unknown": "export XLA_FLAGS=--xla_gpu_nope_nope=0\n",
    "a value with a unit": f"export XLA_FLAGS=--{THRESHOLD}=8GB\n",
    "values that are read otherwise": (
        "export NCCL_BUFFSIZE=8m NCCL_CROSS_NIC=5 NCCL_P2P_LEVEL=nvl NCCL_NVLS_ENABLE=3\n"
        "export TF_CPP_MIN_LOG_LEVEL=x JAX_PGLE_AGGREGATION_PERCENTILE=150 JAX_PLATFORMS=neuron\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=64 JAX_ENABLE_PGLE=enabled NCCL_PROTO=LL128,Simpel\n"
    ),
    "libtpu's flags": (
        "export LIBTPU_INIT_ARGS='--xla_tpu_scoped_vmem_limit=1"
        " --xla_tpu_scoped_vmem_limit_kib=64k TPU_MEGACORE=x'\n"
    ),
    "flags of others": "export XLA_FLAGS='--tf_xla_auto_jit=2 --NCCL_DEBUG=INFO -xla_dump_to=/a'\n",
}
OTHERS = {
    "pod.yaml": (
        f"containers:\n- env: [{{name: XLA_FLAGS, value: --{GEMM}=false}}]\n"
        "- env: [{name: XLA_FLAGS, value: --xla_dump_to=/d}]\n"
    ),
    "action.yaml": "with:\n  ENVS: |\n    NCCL_DEBUG=INFO;\n    MINE=1\n",
    "Dockerfile": (
        "FROM a AS base\nRUN export XLA_FLAGS=--xla_run=1\n"
        f"FROM base\nENV XLA_FLAGS=--{GEMM}=false\n"
        'CMD ["bash", "-c", "NCCL_ALGO=Ring python x.py"]\n'
    ),
    "late.py": (
        f"import os, jax\nprint(jax.devices())\nos.environ['XLA_FLAGS'] = '--{GEMM}=false'\n"
    ),
    "unknowable.py": "import os\nos.environ['XLA_FLAGS'] = more()\n",
    "functions.py": (
        f"def base(env):\n  env['XLA_FLAGS'] = '--{GEMM}=false'\n"
        "def more(env):\n  env['XLA_FLAGS'] += ' --xla_dump_to=/d'\n"
    ),
    "dict.py": f"options = dict({GEMM}='false')\n",
    "name.py": "import os\nos.environ['A; rm -r x'] = '1'\nos.environ['NCCL_DEBUG'] = '2'\n",
    "job.env": "XLA_FLAGS=--xla_dump_to=/d\nnonsense\n",
    "page.md": f"Set `--{GEMM}=false`, and --xla_gpu_autotune_level=0.\n",
    "comments.flags": f"--{GEMM}=false\n# why\n--xla_dump_to=/d\n",
    "notebook.ipynb": '{"cells": []}',
    "more.sh": ". more.sh\n" * 100,
}
REFUSED = {
    "a TOML key": ("s.toml", "[flags]\na = 1\n"),
    "a value that needs a shell": ("s.sh", "export A=$HOME/x\n"),
    "a function": ("s.sh", "f() { export XLA_FLAGS=--xla_a=$1; }\nf 1\n"),
    "a block": ("s.sh", "if x; then export NCCL_A=1; fi\n"),
    "a comment in an env file": ("s.env", "NCCL_A=1 # why\n"),
    "Python with an if": ("s.py", "import os\nif f():\n    os.environ['NCCL_A'] = '1'\n"),
    "a flag as a variable": ("s.sh", "export gpu_reduce_scatter_combine_threshold_bytes=1\n"),
    "a file elsewhere": ("s.sh", "export XLA_FLAGS=../elsewhere.flags\n"),
    "no settings": ("s.sh", "# nothing\n"),
    "bytes": ("s.sh", "\x7fELF\0\1"),
    "too much text": ("s.sh", "x=aaaaaaaa\n" + 'x="$x$x"\n' * 60 + "export XLA_FLAGS=$x\n"),
}
COMMANDS = {
    "changes after a later release": (
        "list --jaxlib 0.10.2 --changed-since 0.12.0", "diff 0.6.2 0.10.3",
        "diff 0.10.2 0.10.2",
    ),
    "recommendations and their errors": (
        "recommend --for fsdp,pp --target 8xB200 --jaxlib 0.12.0",
        "recommend --for fsdp --target 8xH100 --jaxlib 0.10.2 --as bash",
        "recommend --for multislice --target 8xH100",
        "recommend --for zero", "recommend --for dp --goal fun", "recommend --for dp --target H100",
        "recommend --for dp --json --as bash",
    ),
    "thresholds": (
        "thresholds --params 5e6 --layers 4",
        "thresholds --params 218e6 --dtype bf16 --layers 32",
        "thresholds --params 218e6 --total-params 7B", "thresholds --total-params 7B",
        "thresholds --params 218e6 --layers 0", "thresholds --program /nowhere",
        "thresholds", "thresholds --params many", "thresholds --params 218e6 --dtype int3",
    ),
    "no dump": ("effective no/such/dump", "effective empty", "effective other", "effective older",
                "effective two --module jit_y"),
    "forms": ("render forms.toml --as compiler_options --jaxlib 0.10.2",
              "render forms.toml --as bash --jaxlib 0.10.2"),
}  # fmt: skip
FORMS = """
[xla_flags]
xla_fuel = "1"
xla_gpu_enable_nccl_comm_splitting = false
xla_gpu_enable_custom_fusions = true
xla_gpu_enable_triton_gemm = false
[env]
NCCL_DEBUG = "INFO"
"""


class Flags:
    """`counterpoint flags` in a directory whose name does not matter."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Keep the directory and what captures the output."""
        self.place = place
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        code = main(["flags", *words])
        told = self._capsys.readouterr()
        return self.plain(f"exit code {code}\n{told.out}{told.err}")

    def plain(self, text: str) -> str:
        return text.replace(str(self.place.parent), "/home")


@pytest.fixture
def flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Flags:
    monkeypatch.setenv("COLUMNS", "100")
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return Flags(place, capsys)


def document(parts: Mapping[str, str] | Iterator[tuple[str, str]]) -> str:
    return "\n".join(f"## {title}\n\n{text}" for title, text in dict(parts).items())


def test_remarks_on_scripts(flags: Flags, golden: Golden) -> None:
    def told(text: str) -> str:
        (flags.place / "job.sh").write_text(text)
        return flags("check", "job.sh", "--no-probe", "--jaxlib", "0.10.2")

    golden("remarks_on_scripts.txt", document((name, told(text)) for name, text in SHELL.items()))


def test_remarks_on_other_files(flags: Flags, golden: Golden) -> None:
    def told(name: str, text: str) -> str:
        (flags.place / name).write_text(text)
        return flags("check", name, "--no-probe", "--jaxlib", "0.10.2")

    parts = document((name, told(name, text)) for name, text in OTHERS.items())
    golden("remarks_on_other_files.txt", parts)


def error(flags: Flags, refused: CounterpointError) -> str:
    parts = {"error": refused.what, "why": refused.why, "next": refused.next}
    return flags.plain("".join(f"{name}: {text}\n" for name, text in parts.items() if text))


def test_what_is_not_applied(flags: Flags, golden: Golden) -> None:
    def told(name: str, text: str) -> str:
        (flags.place / name).write_text(text)
        with pytest.raises(CounterpointError) as raised:
            load_settings(flags.place / name)
        return error(flags, raised.value)

    parts = {title: told(*file) for title, file in REFUSED.items()}
    for word in ("nope=1", "nvls_enable=0", f"--{THRESHOLD}"):
        with pytest.raises(CounterpointError) as raised:
            read_line(word)
        parts[word] = error(flags, raised.value)
    with pytest.raises(CounterpointError) as raised:
        parse_settings(["JAX_PLATFORMS=cpu"])
    parts["a variable as a flag"] = error(flags, raised.value)
    for text in ("--xla_dump_to --xla_x", "-xla_x=1", "--xla_a=1 stray", "--a='x"):
        with pytest.raises(CounterpointError) as raised:
            parse_xla_flags(text)
        parts[text] = error(flags, raised.value)
    for source in ("pgle-recomended", "no/such/file.sh"):
        with pytest.raises(CounterpointError) as raised:
            load_settings(source)
        parts[source] = error(flags, raised.value)
    golden("not_applied.txt", document(parts))


@pytest.mark.parametrize("title", COMMANDS)
def test_commands(title: str, flags: Flags, golden: Golden) -> None:
    (flags.place / "empty").mkdir()
    (flags.place / "other").mkdir()
    (flags.place / "other" / "module_0001.jit_x.debug_options").write_text("garbage {")
    (flags.place / "older").mkdir()
    (flags.place / "older" / "module_0001.jit_x.before_optimizations.txt").write_text("HloModule x")
    (flags.place / "two").mkdir()
    (flags.place / "two" / "module_0001.jit_x.debug_options").write_text('xla_dump_to: "/d"\n')
    (flags.place / "forms.toml").write_text(FORMS)
    told = {f"flags {words}": flags(*words.split()) for words in COMMANDS[title]}
    golden(f"{title.replace(' ', '_')}.txt", document(told))


UNKNOWN = (
    "xla_gpu_graph_level", "xla_gpu_cudnn_gemm_fusion", "xla_gpu_pipeline_all_gather",
    "xla_gpu_enable_triton_gem", "xla-gpu-autotune-level", "xla_gpu_autotune_level",
    "xla_tpu_enable_x", "tf_xla_auto_jit", "quite_another_thing",
)  # fmt: skip


def test_what_an_unknown_flag_may_stand_for(golden: Golden) -> None:
    golden("hints.txt", document((name, unknown_hint(name, "0.10.2") + "\n") for name in UNKNOWN))


SETTINGS = Settings((("xla_gpu_autotune_level", "0"),), (("NCCL_ALGO", "Ring"),))
