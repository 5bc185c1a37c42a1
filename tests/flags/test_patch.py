"""A job's file gets other settings, and keeps everything else byte for byte."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

from counterpoint.core import UsageError
from counterpoint.flags import Settings
from counterpoint.flags.patch import patch_text

SETTINGS = Settings(
    (("xla_gpu_enable_triton_gemm", "false"), ("xla_gpu_enable_command_buffer", "")),
    (("NCCL_ALGO", "Ring"), ("GREETING", 'it\'s "$(HOME)"')),
)
FLAGS = "--xla_gpu_enable_triton_gemm=false --xla_gpu_enable_command_buffer="

JOBSET = """\
# the job of a team
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}   # its name
spec:
  replicatedJobs:
  - name: workers
    template:
      spec:
        template:
          spec:
            containers:
            - name: trainer      # trains
              image: "jax:1"
              command: [python, train.py]
              env:
              - name: XLA_FLAGS  # of last year
                value: >-
                  --xla_gpu_enable_triton_gemm=true
                  --xla_gpu_autotune_level=2
              - {name: NCCL_ALGO, value: Tree}
              # the end
            - image: sidecar
              env: [{name: OTHER, value: "1"}]
            - image: bare
              env:
            - {image: flow}
"""


def containers(node: object) -> list[Any]:
    if isinstance(node, dict):
        own = node.get("containers", [])
        return [*own, *(found for value in node.values() for found in containers(value))]
    return (
        [found for value in node for found in containers(value)] if isinstance(node, list) else []
    )


def environments(text: str) -> list[dict[str, str]]:
    found = list(yaml.safe_load_all(text))
    return [{it["name"]: it.get("value") for it in one["env"]} for one in containers(found)]


def patched(text: str, name: str = "job.yaml") -> str:
    new = patch_text(text, name, SETTINGS).text
    assert patch_text(new, name, SETTINGS).text == new, "a second patch changes something"
    return new


def test_every_container_of_a_jobset_gets_the_settings() -> None:
    first, second, third, fourth = environments(patched(JOBSET))
    assert first["XLA_FLAGS"] == (
        "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2"
        " --xla_gpu_enable_command_buffer="
    )
    assert first["NCCL_ALGO"] == "Ring"
    for env in (second, third, fourth):
        assert env["XLA_FLAGS"] == FLAGS
        assert env["GREETING"] == 'it\'s "$$(HOME)"'  # Kubernetes expands $(NAME)
    assert second["OTHER"] == "1"


def test_comments_and_all_else_stay() -> None:
    new = patched(JOBSET).splitlines()
    replaced = [line for line in JOBSET.splitlines() if line not in new]
    assert len(replaced) == 6, replaced  # three of flags, NCCL_ALGO, two in one line
    for comment in ("# the job of a team", "# its name", "# trains", "# of last year", "# the end"):
        assert any(comment in line for line in new)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay(end: str) -> None:
    new = patched(JOBSET.replace("\n", end))
    assert new.replace(end, "").count("\n") == 0


def test_a_script_in_the_last_line_without_its_end_is_not_changed() -> None:
    text = (
        "spec:\n  containers:\n  - args:\n    - |\n      echo\n    name: a\n    command: |\n      b"
    )
    new = yaml.safe_load(patched(text))
    (container,) = new["spec"]["containers"]
    assert container["command"] == "b"


def test_several_documents_and_anchors() -> None:
    text = "a:\n  containers:\n  - &c\n    name: x\n---\nb: {containers: [{name: y}]}\n"
    assert [env["NCCL_ALGO"] for env in environments(patched(text))] == ["Ring", "Ring"]


def test_a_train_job_has_its_environment_at_the_trainer() -> None:
    text = "kind: TrainJob\nspec:\n  trainer:\n    numNodes: 4\n"
    trainer = yaml.safe_load(patched(text))["spec"]["trainer"]
    assert {it["name"] for it in trainer["env"]} == {"XLA_FLAGS", "NCCL_ALGO", "GREETING"}
    assert trainer["numNodes"] == 4


@pytest.mark.parametrize("envs", ["", "envs:\n  NCCL_ALGO: Tree  # old\n  OTHER: 1\n"])
def test_a_task_of_skypilot(envs: str) -> None:
    new = yaml.safe_load(patched(f"name: t\n{envs}run: python train.py\n", "task.yaml"))
    assert new["envs"]["NCCL_ALGO"] == "Ring"
    assert new["envs"]["XLA_FLAGS"] == FLAGS
    assert new["run"] == "python train.py"


def test_what_the_environment_cannot_change_is_noted() -> None:
    text = (
        "kind: MPIJob\nspec:\n  containers:\n  - name: a\n    command:\n    - bash\n    - -c\n"
        "    - export XLA_FLAGS=--xla_a=1; python t.py\n"
    )
    notes = patch_text(text, "job.yaml", SETTINGS).notes
    assert any("-x names" in note for note in notes)
    assert any(note.startswith("line 8: the script of `command` sets XLA_FLAGS") for note in notes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not valid YAML"),
        ("a: 1", "no container"),
        (
            "containers:\n- env:\n  - name: NCCL_ALGO\n    valueFrom: {fieldRef: x}\n",
            "line 3: the environment can't be changed",
        ),
        ("containers:\n- env: {A: b}\n", "line 2: the environment can't be changed"),
    ],
)
def test_what_cannot_be_patched_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        patch_text(text, "job.yaml", SETTINGS)
    assert says in error.value.what


def test_other_files_are_refused() -> None:
    with pytest.raises(UsageError, match="not a file of a job"):
        patch_text("x = 1", "train.py", SETTINGS)


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
# a comment
export NCCL_ALGO=Tree
export XLA_FLAGS="--xla_gpu_enable_triton_gemm=true \\
  --xla_gpu_autotune_level=2"

printf '%s|%s|%s\\n' "$XLA_FLAGS" "$NCCL_ALGO" "$GREETING"
"""


def ran(text: str) -> list[str]:
    done = subprocess.run(["/bin/bash"], input=text, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n").split("|")


def test_a_slurm_script_exports_the_settings_after_its_own() -> None:
    new = patched(SCRIPT, "job.sbatch")
    flags, algo, greeting = ran(new)
    words = flags.split()
    assert words[:2] == ["--xla_gpu_enable_triton_gemm=true", "--xla_gpu_autotune_level=2"]
    assert words[2:] == FLAGS.split()  # of two, the last one counts
    assert (algo, greeting) == ("Ring", 'it\'s "$(HOME)"')
    start = SCRIPT.index("\nprintf")
    assert new.startswith(SCRIPT[:start])
    assert new.endswith(SCRIPT[start:])


def test_another_patch_replaces_the_first() -> None:
    first = patched(SCRIPT, "job.sbatch")
    other = Settings(env=(("NCCL_ALGO", "CollnetDirect"),))
    second = patch_text(first, "job.sbatch", other).text
    assert ran(second)[1] == "CollnetDirect"
    assert second.count("begin of settings") == 1


def test_a_script_without_own_settings_gets_them_below_its_head() -> None:
    new = patched("#!/bin/bash\n#SBATCH -N2\nsrun python train.py\n", "job.slurm")
    lines = new.splitlines()
    assert lines[:2] == ["#!/bin/bash", "#SBATCH -N2"]
    assert lines[-1] == "srun python train.py"


def test_settings_within_a_block_are_noted() -> None:
    text = "#!/bin/bash\nif true; then\n  export NCCL_ALGO=Tree\nfi\n"
    (note,) = patch_text(text, "run.sh", SETTINGS).notes
    assert note.startswith("line 3: NCCL_ALGO is set within a block")


def test_xpk_gets_options() -> None:
    text = "xpk workload create --cluster c \\\n  --env=NCCL_ALGO=Tree --command 'python t.py'\n"
    new = patched(text, "run.sh")
    assert "--env=NCCL_ALGO=Ring" in new
    assert "Tree" not in new
    assert f"--env=XLA_FLAGS='{FLAGS}'" in new
    assert new.endswith("--command 'python t.py'\n")
    with pytest.raises(UsageError, match="names a file of variables"):
        patch_text("xpk workload create --env-file a.env\n", "run.sh", SETTINGS)
