"""YAML as a source: manifests, values, MaxText, Levanter, and templates of all these."""

from __future__ import annotations

import pytest

from counterpoint.core.errors import InputError
from counterpoint.flags.check.examination import check
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import IssueKind
from counterpoint.flags.settings import Channel
from flag_sources import flags, issue, kinds, lines, manifest

POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: train
    env:
    - name: XLA_FLAGS
      value: >-
        --xla_a=1
        --xla_b=2
    - name: NCCL_DEBUG
      value: "INFO"
    - name: JAX_PROCESS_ID
      valueFrom: {fieldRef: {fieldPath: x}}
"""


def test_a_container_has_its_variables_with_their_lines() -> None:
    written = manifest(POD)
    assert written.form == "kubernetes"
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2")]
    assert lines(written)[:3] == [("xla_a", 9), ("xla_b", 10), ("NCCL_DEBUG", 11)]
    assert written.settings.variables == {"NCCL_DEBUG": "INFO"}


def test_a_value_from_elsewhere_is_an_issue() -> None:
    written = manifest("env:\n- name: XLA_FLAGS\n  valueFrom: {configMapKeyRef: {name: x}}\n")
    assert kinds(written) == [IssueKind.UNKNOWABLE]


def test_kubernetes_puts_earlier_variables_in() -> None:
    written = manifest(
        "env:\n- name: BASE\n  value: --xla_a=1\n- name: XLA_FLAGS\n"
        '  value: "$(BASE) --xla_b=2 --xla_c=$$(BASE) $(OTHER)"\n'
    )
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2"), ("xla_c", "$(BASE)")]
    assert issue(written).text == "$(OTHER)"


def test_a_script_in_a_manifest_finds_the_variables_of_its_container() -> None:
    written = manifest(
        "containers:\n"
        "- command:\n"
        "  - bash\n"
        "  - -c\n"
        "  - |\n"
        '    export XLA_FLAGS="$XLA_FLAGS --xla_b=2"\n'
        "    python train.py\n"
        "  env:\n"
        "  - {name: XLA_FLAGS, value: --xla_a=1}\n"
    )
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2")]
    assert lines(written) == [("xla_a", 9), ("xla_b", 6)]
    assert not written.issues


def test_a_script_in_a_manifest_that_drops_what_the_container_sets_is_an_issue() -> None:
    written = manifest(
        "env:\n- {name: XLA_FLAGS, value: --xla_a=1}\n"
        "command: [bash, -c, 'export XLA_FLAGS=--xla_b=2; python x']\n"
    )
    assert issue(written).kind is IssueKind.OVERWRITTEN


@pytest.mark.parametrize(
    "text",
    [
        "env: {NCCL_DEBUG: INFO, MINE: 1}",
        "runtime_env:\n  env_vars:\n    NCCL_DEBUG: INFO\n    MINE: '1'",
        "services:\n  train:\n    environment:\n    - NCCL_DEBUG=INFO\n    - MINE=1",
        "env:\n- {name: NCCL_DEBUG, value: INFO}\n- {name: MINE, value: '1'}",
    ],
    ids=lambda text: " ".join(text.split()),
)
def test_environments_are_found_in_all_their_forms(text: str) -> None:
    assert manifest(text).settings.variables == {"NCCL_DEBUG": "INFO", "MINE": "1"}


def test_elsewhere_only_known_names_are_settings() -> None:
    written = manifest("data:\n  NCCL_DEBUG: INFO\n  COLOR: red\n")
    assert written.settings.variables == {"NCCL_DEBUG": "INFO"}


def test_maxtext_has_compiler_options() -> None:
    (one,) = manifest('base_config: "base.yml"\ncompile_xla_flags: "--xla_a=True"\n').given
    assert (one.channel, one.name, one.value) == (Channel.COMPILER_OPTIONS, "xla_a", "True")
    assert (one.via, one.place.line) == ("MaxText compile_xla_flags", 2)
    assert not manifest('compile_xla_flags: ""\n').given


@pytest.mark.parametrize(
    "text",
    ["xla_flags: --xla_a=1 --xla_b=2", "xla_flags:\n- --xla_a=1\n- --xla_b=2",
     "xla_flags:\n  xla_a: 1\n  xla_b: 2"],
)  # fmt: skip
def test_a_key_of_xla_flags_holds_them_in_all_forms(text: str) -> None:
    assert flags(manifest(text)) == [("xla_a", "1"), ("xla_b", "2")]


def test_levanter_sets_jax_config_and_its_profiler() -> None:
    written = manifest(
        "trainer:\n  profiler: {enabled: true, start_step: 5}\n"
        "  jax_config:\n    jax_enable_pgle: true\n"
    )
    assert written.settings.variables == {"JAX_ENABLE_PGLE": "true"}
    assert [one.name for one in written.through(Channel.TRAINER)] == [
        "trainer.profiler.enabled",
        "trainer.profiler.start_step",
    ]


def test_of_several_containers_each_is_a_program_with_its_flags() -> None:
    written = manifest(POD + "---\n" + POD.replace("--xla_a=1", "--xla_a=9"))
    assert [one.settings.flags["xla_a"] for one in written.programs] == ["9", "1"]
    assert written.notes == ("2 programs, each checked separately",)


def test_a_template_is_read_with_holes() -> None:
    written = manifest(
        "{{- range .Values.jobs }}\n"
        "env:\n"
        "- name: XLA_FLAGS\n"
        '  value: "--xla_a=1 {{ .Values.flags }} --xla_b={{ .n }}"\n'
        "{{- end }}\n"
    )
    assert [(one.name, one.known) for one in written.given] == [("xla_a", True), ("xla_b", False)]
    assert kinds(written) == [IssueKind.UNKNOWABLE] * 2
    assert written.given[0].place.line == 4


def test_a_template_that_is_no_yaml_is_read_as_text() -> None:
    written = manifest('{{ if x }}\na: [\n{{ end }}\nb: "--xla_a=1"\n')
    assert written.form == "text"
    assert flags(written) == [("xla_a", "1")]


def test_what_is_no_yaml_is_an_error_with_its_line() -> None:
    with pytest.raises(InputError, match=r"job\.yaml:\d+: not YAML"):
        manifest("a: [1\nb: }\n")


CONFIG = """\
apiVersion: v1
kind: ConfigMap
data:
  maxtext.yaml: |-
{{ .Values.config | nindent 4 }}
  xla-flags: >-
    {{- if .Values.xlaFlags }}
    {{ .Values.xlaFlags }}
    {{- else }}
    --xla_a=1
    --xla_b=2
    {{- end }}
"""


def test_a_text_of_flags_is_read_under_any_key() -> None:
    written = manifest(CONFIG)
    assert flags(written) == [("xla_a", "1"), ("xla_b", "2")]
    assert lines(written) == [("xla_a", 10), ("xla_b", 11)]
    assert written.given[0].via == "xla-flags"
    assert flags(manifest("data:\n  mine: '--xla_a=1 --xla_b=2'\n")) == flags(written)


def test_lines_of_an_env_file_in_a_workflow_are_not_read_and_listed() -> None:
    written = manifest(
        "jobs:\n  test:\n    with:\n      ENVS: |\n        NCCL_DEBUG=INFO;\n        MINE=1\n"
    )
    assert not written.given
    assert [part.partition(":")[0] for part in written.unread] == ["line 4"]


def test_a_script_that_sets_other_variables_than_flags_is_read() -> None:
    written = manifest(
        "steps:\n- run: |\n    export NCCL_DEBUG=INFO\n    python a.py\n"
        "- run: JAX_PLATFORMS=cuda python b.py\n- run: echo $NCCL_DEBUG\n"
    )
    assert [lines(one) for one in written.programs] == [
        [("JAX_PLATFORMS", 5)],
        [("NCCL_DEBUG", 3)],
    ]


def test_scripts_side_by_side_keep_their_own_flags() -> None:
    written = manifest(
        "env:\n  XLA_FLAGS: --xla_a=1\n"
        "steps:\n- run: export XLA_FLAGS=\"$XLA_FLAGS --xla_gpu_autotune_level=0\"; x\n"
        "- run: export XLA_FLAGS=\"$XLA_FLAGS --xla_gpu_autotune_level=4\"; y\n"
    )  # fmt: skip
    assert [flags(one) for one in written.programs] == [
        [("xla_a", "1"), ("xla_gpu_autotune_level", "4")],
        [("xla_a", "1"), ("xla_gpu_autotune_level", "0")],
    ]
    assert not written.issues
    assert not [it for it in check(written, version="0.10.2") if it.code == "FLAG205"]


def test_what_a_script_in_a_manifest_leaves_unread_is_said() -> None:
    written = manifest(
        "command: [bash, -c]\n"
        "args:\n"
        "- |\n"
        "  source ./more.env\n"
        "  export XLA_FLAGS=--xla_a=1\n"
        "- |\n"
        "  export NCCL_PROTO='LL\n"
    )
    assert flags(written) == [("xla_a", "1")]
    assert [part.partition(" (")[0] for part in written.unread] == [
        "line 4: source ./more.env",
        "line 7: export NCCL_PROTO='LL",
    ]


@pytest.mark.parametrize("null", ["null", "~", ""])
def test_null_sets_nothing(null: str) -> None:
    written = manifest(f"env:\n  NCCL_DEBUG: {null}\n  XLA_FLAGS: {null}\n  NCCL_ALGO: Ring\n")
    assert written.settings.variables == {"NCCL_ALGO": "Ring"}
    assert manifest("env: {NCCL_DEBUG: 'null'}").settings.variables == {"NCCL_DEBUG": "null"}


OPTION = "--trainer.profilr_num_steps"


@pytest.mark.parametrize(
    ("text", "line", "nsys"),
    [
        ('command: ["python", "-m", "levanter.main", "{0}", "3"]\n', 1, False),
        (
            'command:\n- python\n- "{0}"\n- "3"\nenv: [{{name: NCCL_DEBUG, value: INFO}}]\n',
            3,
            False,
        ),
        ('command: ["bash", "-c"]\nargs: ["nsys profile python x.py {0} 3"]\n', 2, True),
        ("services:\n  a:\n    command: nsys profile python x.py {0} 3\n", 3, True),
        ('entrypoint: ["nsys", "profile"]\ncommand: ["python", "x.py", "{0}=3"]\n', 2, True),
    ],
)
def test_the_command_of_a_container_is_read(text: str, line: int, *, nsys: bool) -> None:
    written = read_text(text.format(OPTION), "pod.yaml")
    (option,) = written.through(Channel.TRAINER)
    assert (option.name, option.value) == (OPTION.removeprefix("--"), "3")
    assert option.place.line == line
    assert written.nsys is nsys
    where = {str(one.place) for one in check(written, version="0.10.2") if one.code == "FLAG403"}
    assert where == ({f"pod.yaml:{written.nsys_line}"} if nsys else set())
    assert (written.nsys_line is not None) is nsys


def test_a_command_inherits_no_variables_of_another_container() -> None:
    written = read_text(
        "containers:\n- name: a\n  env:\n  - {name: XLA_FLAGS, value: --xla_dump_to=/a}\n"
        '- name: b\n  command: ["bash", "-c", "XLA_FLAGS=--xla_dump_to=/b python b.py"]\n',
        "pod.yaml",
    )
    assert not written.issues
    assert [flags(one) for one in written.programs] == [
        [("xla_dump_to", "/b")],
        [("xla_dump_to", "/a")],
    ]
