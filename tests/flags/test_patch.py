"""A job's file gets other settings, and keeps everything else byte for byte."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest
import yaml

from counterpoint.core import UsageError
from counterpoint.flags.patch import patch_text
from counterpoint.flags.settings import Settings

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
    assert patch_text(new, name, SETTINGS).text == new  # a second patch changes nothing
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


ANCHORS = """\
x-env: &my-env
  # of all
  - name: NCCL_ALGO
    value: Tree

x-one: &one {name: ONE, value: "1"}
x-sidecar: &sidecar
  name: sidecar
  image: &image jax:1
kind: Pod
spec:
  containers:
  - image: *image
    name: *image
  - *sidecar
  - name: b
    env: *my-env
  - name: c
    env: *my-env
  - name: d
    env:
      - name: TWO
      - *one
    args: [x]
"""


def test_anchors_are_edited_once_and_aliases_stay() -> None:
    new = patched(ANCHORS)
    lines, own = new.splitlines(), ANCHORS.splitlines()
    assert [line for line in own if line not in lines] == ["    value: Tree"]
    found = environments(new)
    assert [one["XLA_FLAGS"] for one in found] == [FLAGS] * 5
    assert [one["NCCL_ALGO"] for one in found] == ["Ring"] * 5
    assert found[4]["ONE"] == "1"
    assert yaml.safe_load(new)["x-one"] == yaml.safe_load(ANCHORS)["x-one"]


FLOW = """\
spec:
  containers:
  - env: [
      {value: 'Tree', name: NCCL_ALGO},  # the last, with a comma
    ]
    name: a
  - {image: i,  # an image
     name: b,   # a name
    }
"""


def test_commas_and_comments_at_the_end_of_lists_in_brackets_stay() -> None:
    new = patched(FLOW)
    assert [one["NCCL_ALGO"] for one in environments(new)] == ["Ring", "Ring"]
    assert [one["name"] for one in containers(yaml.safe_load(new))] == ["a", "b"]
    for comment in ("# the last, with a comma\n    ]", "# a name\n    }"):
        assert comment in new


@pytest.mark.parametrize("style", ["|", ">", ">-", "|+"])
def test_empty_lines_after_a_text_of_several_lines_stay(style: str) -> None:
    rest = "\n\n    # the image\n    image: i\n"
    text = (
        f"containers:\n  - env:\n    - name: XLA_FLAGS\n      value: {style}\n        --xla_a=1\n"
    )
    new = patched(text + rest)
    assert "\n\n\n" in new
    assert new.endswith(rest.lstrip("\n"))


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


POD = "{0}template:\n{0}  spec:\n{0}    containers:\n{0}    - name: x  # {1}\n{0}      image: y\n"
REPLICAS = """\
apiVersion: kubeflow.org/v1
kind: {kind}
metadata: {{name: train}}
spec:
  {field}:
    {first}:
      replicas: 1
{pods[0]}    Worker:
      replicas: 2
{pods[1]}"""
ITSELF = "itself, after the environment: change it there, too"
RAY_JOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {{name: train}}
spec:
  entrypoint: NCCL_ALGO=Tree python train.py
  runtimeEnvYAML: |
    env_vars:
      XLA_FLAGS: "--xla_gpu_autotune_level=2"
  rayClusterSpec:
    rayVersion: '2.46.0'  # of the image
    headGroupSpec:
      rayStartParams: {{}}
{pods[0]}    workerGroupSpecs:
    - groupName: gpus
      replicas: 2
{pods[1]}"""


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        pytest.param(
            REPLICAS.format(
                kind="MPIJob",
                field="mpiReplicaSpecs",
                first="Launcher",
                pods=[POD.format(" " * 6, 1), POD.format(" " * 6, 2)],
            ),
            ["mpirun passes on only the variables that its -x names"],
            id="MPIJob",
        ),
        pytest.param(
            REPLICAS.format(
                kind="PyTorchJob",
                field="pytorchReplicaSpecs",
                first="Master",
                pods=[POD.format(" " * 6, 1), POD.format(" " * 6, 2)],
            ),
            [],
            id="PyTorchJob",
        ),
        pytest.param(
            RAY_JOB.format(pods=[POD.format(" " * 6, 1), POD.format(" " * 6, 2)]),
            [
                f"line 5: the script of `entrypoint` sets NCCL_ALGO {ITSELF}",
                f"line 6: `runtimeEnvYAML` sets XLA_FLAGS {ITSELF}",
            ],
            id="RayJob",
        ),
    ],
)
def test_jobs_of_operators_get_them_in_each_pod_and_keep_all_else(
    text: str, notes: list[str]
) -> None:
    found = patch_text(text, "job.yaml", SETTINGS)
    assert [it["XLA_FLAGS"] for it in environments(found.text)] == [FLAGS, FLAGS]
    own = [line for line in found.text.splitlines() if line in text.splitlines()]
    assert own == text.splitlines()
    assert [*found.notes] == notes


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
        ("a: [", "not YAML: while parsing a flow node expected the node content"),
        ("a: 1", "no container"),
        (
            "containers:\n- env:\n  - name: NCCL_ALGO\n    valueFrom: {fieldRef: x}\n",
            "line 3: the environment can't be changed",
        ),
        ("containers:\n- env: {A: b}\n", "line 2: the environment can't be changed"),
        (
            "x: &v Tree\ncontainers:\n- env:\n  - name: NCCL_ALGO\n    value: *v\n",
            "line 1: the environment can't be changed",
        ),
        ("? containers\n: - ? name\n    : a\n", "the environment can't be changed: "),
        (
            "containers:\n- env:\n  - name: XLA_FLAGS\n    value: $(BASE) --xla_a=1\n",
            "line 4: the environment can't be changed",
        ),
    ],
)
def test_what_cannot_be_patched_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        patch_text(text, "job.yaml", SETTINGS)
    assert says in error.value.what


@pytest.mark.parametrize(("text", "why"), [("a: [", False), ("a: {{ x }}: [", True)])
def test_only_a_template_is_to_be_rendered_first(text: str, *, why: bool) -> None:
    with pytest.raises(UsageError, match=r"not YAML.* at line 1, column ") as error:
        patch_text(text, "job.yaml", SETTINGS)
    assert ("helm template" in (error.value.why or "")) is why


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x = 1", "train.py"),
        ("#!/bin/csh\nsetenv A 1\nsrun t\n", "job.sbatch"),
        ("#!/usr/bin/env python3\nprint(1)\n", "job.sbatch"),
    ],
)
def test_other_files_are_refused(text: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: "):
        patch_text(text, name, SETTINGS)


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
    assert note.startswith("line 3: NCCL_ALGO ")


def test_xpk_gets_options() -> None:
    text = "xpk workload create --cluster c \\\n  --env=NCCL_ALGO=Tree --command 'python t.py'\n"
    new = patched(text, "run.sh")
    assert "--env=NCCL_ALGO=Ring" in new
    assert "Tree" not in new
    assert f"--env=XLA_FLAGS='{FLAGS}'" in new
    assert new.endswith("--command 'python t.py'\n")
    # xpk writes values between quotes into its manifest, as they are.
    (greeting,) = [word for word in shlex.split(new) if word.startswith("--env=GREETING=")]
    assert yaml.safe_load(f'"{greeting.partition("=GREETING=")[2]}"') == 'it\'s "$$(HOME)"'
    with pytest.raises(UsageError, match=r"xpk .* file"):
        patch_text("xpk workload create --env-file a.env\n", "run.sh", SETTINGS)
    with pytest.raises(UsageError, match="--debug-dump-gcs"):
        patch_text("xpk workload create --debug-dump-gcs=gs://b\n", "run.sh", SETTINGS)


BEGIN = "# begin of settings by counterpoint tune\n"
END = "# end of settings by counterpoint tune\n"


def around(text: str) -> tuple[str, str]:
    """Return what is before and after the block of the patched script."""
    new = patched(text, "run.sh")
    assert new.count(BEGIN) == 1
    return new.partition(BEGIN)[0], new.partition(END)[2]


def notes_of(text: str) -> tuple[str, ...]:
    return patch_text(text, "run.sh", SETTINGS).notes


HEREDOC = """\
#!/bin/bash
export NCCL_DEBUG=INFO
bash <<EOF
# don't
export XLA_FLAGS=--xla_a=1
printf '%s|%s|%s\\n' "\\$XLA_FLAGS" "\\$NCCL_ALGO" "\\$GREETING"
EOF
export NCCL_ALGO=Tree
"""


def test_nothing_is_written_in_a_heredoc() -> None:
    before, after = around(HEREDOC)
    assert "<<" not in before
    assert after.endswith(HEREDOC[HEREDOC.index("bash <<") :])
    assert ran(patched(HEREDOC, "run.sh"))[1] == "Ring"
    notes = notes_of(HEREDOC)
    assert any(note.startswith("line 5 sets XLA_FLAGS within") for note in notes)
    assert any(note.startswith("line 8 sets NCCL_ALGO again, after") for note in notes)


@pytest.mark.parametrize(
    "opens",
    ["srun bash <<EOF", "bash <<-'EOF'", 'export CMD="$(cat <<EOF', "cat <<\\EOF | srun bash"],
)
def test_heredocs_of_all_forms_stay_whole(opens: str) -> None:
    close = ')"\n' if "$(" in opens else ""
    text = f"#!/bin/bash\n{opens}\nexport XLA_FLAGS=--xla_a=1 # it's\nEOF\n{close}"
    assert around(text) == ("#!/bin/bash\n", text.partition("\n")[2])


def test_marks_have_nothing_that_a_shell_expands() -> None:
    marks = [line for line in patched(SCRIPT, "a.sh").splitlines() if "settings by" in line]
    assert len(marks) == 2
    assert not set("`$'\"\\") & set("".join(marks))


def test_marks_of_earlier_versions_are_found() -> None:
    new = patched(SCRIPT, "a.sh")
    old = new.replace("by counterpoint tune", "by `counterpoint tune`")
    assert patch_text(old, "a.sh", SETTINGS).text == new


LAUNCHES = """\
#!/bin/bash

#SBATCH --nodes=2
source env.sh
export NCCL_ALGO=Tree
{launch}
export XLA_FLAGS=--xla_a=1
"""


@pytest.mark.parametrize(
    "launch",
    [
        "python train.py",
        "srun --label python train.py",
        "exec ./train",
        "cd x && NCCL_DEBUG=INFO torchrun t.py",
        "if true; then\n  mpirun t\nfi",
        "for i in 1 2; do\n  case $i in\n    1) python t.py ;;\n  esac\ndone",
        "train() {\n  python t.py\n}",
        "function train {\n  export NCCL_ALGO=Tree\n  python t.py\n}",
        "(\n  cd $(dirname x)\n  python t.py\n)",
    ],
)
def test_the_block_stands_between_exports_and_the_first_launch(launch: str) -> None:
    text = LAUNCHES.format(launch=launch)
    before, after = around(text)
    assert before.endswith("export NCCL_ALGO=Tree\n")
    assert after.startswith(launch)
    line = len(text.splitlines())
    assert any(
        note.startswith(f"line {line} sets XLA_FLAGS again") and "launch" in note
        for note in notes_of(text)
    )


def test_directives_of_slurm_stay_before_commands() -> None:
    text = "#!/bin/bash\n\n#SBATCH --nodes=2\n\n# trains\npython t.py\n"
    assert around(text)[0] == "#!/bin/bash\n\n#SBATCH --nodes=2\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("XLA_FLAGS=--xla_a=1 python t.py", "line 2 sets XLA_FLAGS for"),
        ("bash -c 'XLA_FLAGS=1 python t.py'", "line 2 sets XLA_FLAGS for"),
        ("env NCCL_ALGO=Tree python t.py", "line 2 sets NCCL_ALGO for"),
        ("export XLA_FLAGS=1; python t.py", "line 2 sets XLA_FLAGS and launches"),
        ("srun --export=ALL,XLA_FLAGS=1 t", "line 2 sets XLA_FLAGS in --export"),
        ("srun --export=HOME,PATH t", "line 2: --export=HOME,PATH "),
    ],
)
def test_lines_that_override_the_block_are_named(line: str, says: str) -> None:
    text = f"#!/bin/bash\n{line}\n"
    assert around(text) == ("#!/bin/bash\n", f"{line}\n")
    (note,) = notes_of(text)
    assert note.startswith(says)
    (again,) = notes_of(patched(text, "run.sh"))  # numbers are those of the file at hand
    assert again == note.replace("line 2", "line 7")


def test_what_overrides_nothing_is_not_noted() -> None:
    text = (
        '#!/bin/bash\nsrun --export=ALL t # XLA_FLAGS=1\necho "XLA_FLAGS=$XLA_FLAGS"\n'
        "# XLA_FLAGS=--xla_a=1 python t.py\n"
    )
    assert notes_of(text) == ()


def test_empty_settings_remove_the_block() -> None:
    new = patch_text(patched(SCRIPT, "a.sh"), "a.sh", Settings())
    assert new.text == SCRIPT
    assert "removed" in new.notes[0]
    assert patch_text(SCRIPT, "a.sh", Settings()).text == SCRIPT


def test_empty_settings_leave_a_manifest_as_it_is_and_say_so() -> None:
    new = patch_text(patched(JOBSET), "job.yaml", Settings())
    assert new.text == patched(JOBSET)
    assert "original file" in new.notes[0]


def test_flags_of_an_earlier_arm_are_named_in_a_manifest() -> None:
    other = Settings((("xla_b", "1"),))
    first = patch_text("containers:\n- name: a\n", "job.yaml", SETTINGS)
    assert first.notes == ()
    (note,) = patch_text(first.text, "job.yaml", other).notes
    assert "--xla_gpu_enable_triton_gemm" in note
    assert "NCCL_ALGO" in note
    assert "original file" in note


def test_a_command_of_xpk_in_a_heredoc_is_refused() -> None:
    text = "bash <<EOF\nxpk workload create --cluster c\nEOF\n"
    with pytest.raises(UsageError, match=r"line 2: .*heredoc"):
        patch_text(text, "run.sh", SETTINGS)


@pytest.mark.parametrize("name", ["job.yaml", "job.json"])
@pytest.mark.parametrize("container", ["{}", '{"name": "c"}', '{"env": null}', '{"env": []}'])
def test_json_stays_json(name: str, container: str) -> None:
    head = '{"kind": "Job",\n   "spec": {"template": {"spec": {"containers": ['
    text = f"{head}{container}]}}}}}}}}\n"
    patched = patch_text(text, name, SETTINGS).text
    assert patched.startswith(head)
    found = json.loads(patched)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {it["name"]: it["value"] for it in found}["XLA_FLAGS"] == FLAGS
