"""What is known of each trainer: its file is valid, recognizes it, and reads what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import package_source
from counterpoint.capture.steps import NamedStep, StepLines
from counterpoint.trainers import (
    StepTokens,
    find_trainer,
    is_framework_file,
    own_profile_option,
    read_trainer,
    tokens_of,
    trainers,
)

NAMES = [trainer.name for trainer in trainers()]

MAXTEXT = (
    "I1124 05:31:53.448171 1400618 metric_logger.py:265] completed step: 2, seconds: 0.104, "
    "TFLOP/s/device: 0.046, Tokens/s/device: 2457.050, total_weights: 1024, loss: 7.417, "
    "lm_loss: 7.417, perplexity: 1664.426"
)
LEVANTER = (
    'I20261124 05:37:24 140208 levanter.json_logger {"tracker": "json_logger", "event": "log", '
    '"step": 39, "metrics": {"throughput/total_tokens": 163840, "throughput/tokens_per_second": '
    '3266.5581667992556, "throughput/duration": 1.2539191990000518, '
    '"throughput/gflops_per_second": 66.91249107829996}}'
)
TUNIX = (
    "I1124 06:00 peft_trainer.py:488] Train step 7 training loss: 6.203125  - training perplexity"
)
EASYDEL = (
    "training process: 100%|##########| 40/40 [01:23<00:00,  2.10s/it, accuracy=0.001, epoch=1, "
    "epoch_index=0, execution_time=0.514, learning_rate=0.0003, loss=6.97, max_grad_norm=0.253, "
    "mean_accuracy=0.001, mean_grad_norm=0.05, mean_loss=6.95, perplexity=1064.0, tflops=0.002, "
    "train_step=40, train_step_time=0.529, visited_tokens=40960, z_loss=0]"
)
PRINTED = {
    "EasyDeL": (EASYDEL, {"step": "40", "seconds": "0.529", "loss": "6.97"}),
    "MaxText": (
        MAXTEXT,
        {"step": "2", "seconds": "0.104", "tokens_per_s_device": "2457.050", "loss": "7.417"},
    ),
    "Levanter": (
        LEVANTER,
        {"step": "39", "seconds": "1.2539191990000518", "tokens_per_s": "3266.5581667992556"},
    ),
    "Tunix": (TUNIX, {"step": "7", "loss": "6.203125"}),
}


@pytest.mark.parametrize("trainer", PRINTED)
def test_a_line_that_a_trainer_printed_is_read(trainer: str) -> None:
    line, expected = PRINTED[trainer]
    found = next(known for known in trainers() if known.name == trainer)
    match = next(hit for pattern in found.step.lines if (hit := re.search(pattern, line)))
    assert {name: value for name, value in match.groupdict().items() if value} == expected


def test_each_line_of_a_trainer_has_a_word_without_which_no_step_is_looked_for() -> None:
    for trainer in trainers():
        for pattern in trainer.step.lines:
            words = re.sub(r"\(\?P<\w+>", "(", pattern).lower()
            assert "step" in words or "loss" in words, (trainer.name, pattern)


def test_once_a_trainer_states_its_step_times_only_its_lines_are_steps() -> None:
    lines = StepLines()
    seen = [
        lines.find('levanter.json_logger {"event": "log", "step": 38, "metrics": {"a": 1}}'),
        lines.find(LEVANTER.replace('"step": 39', '"step": 38')),
        lines.find('levanter.json_logger {"event": "log", "step": 39, "metrics": {"a": 1}}'),
        lines.find(LEVANTER),
    ]
    assert seen[1:] == [None, None, NamedStep(39, 1.2539191990000518)]


@pytest.mark.parametrize(
    ("command", "trainer"),
    [
        ("python3 -m MaxText.train MaxText/configs/base.yml steps=30", "MaxText"),
        ("python -m maxtext.trainers.pre_train.train hardware=cpu", "MaxText"),
        ("python src/MaxText/train.py src/MaxText/configs/base.yml", "MaxText"),
        ("python -m levanter.main.train_lm --config_path nano.yaml", "Levanter"),
        ("python src/levanter/main/train_lm.py", "Levanter"),
        ("python -m axlearn.common.launch_trainer_main --module=text.gpt.c4_trainer", "AXLearn"),
        ("python -m kauldron.main --cfg=examples/mnist.py", "Kauldron"),
        ("python train.py model=maxtext.layers.x", None),
        ("python maxtext.py", None),
    ],
)
def test_a_command_names_its_trainer(command: str, trainer: str | None) -> None:
    found = find_trainer(command.split())
    assert (found.name if found else None) == trainer
    in_shell = find_trainer(["bash", "-c", f"cd x && {command}"])
    assert (in_shell.name if in_shell else None) == trainer


def test_a_script_is_recognized_by_what_it_imported() -> None:
    of_tunix = find_trainer(["python", "sft.py"], ["flax", "tunix"])
    assert of_tunix is not None
    assert of_tunix.name == "Tunix"
    assert find_trainer(["python", "sft.py"], ["maxtext", "tunix"]) is None  # either may train
    assert find_trainer(["python", "loop.py"], ["flax", "optax"]) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/env/lib/python3.12/site-packages/haliax/nn/linear.py", True),
        ("/env/lib/python3.12/site-packages/maxtext/utils/sharding.py", True),
        ("/env/lib/python3.12/site-packages/maxtext/utils/max_utils.py", True),
        ("/env/lib/python3.12/site-packages/maxtext/layers/nnx_wrappers.py", True),
        ("/env/lib/python3.12/site-packages/maxtext/layers/linears.py", False),
        ("/env/lib/python3.12/site-packages/transformer_engine/jax/flax/transformer.py", True),
        ("axlearn/common/module.py", True),
        ("axlearn/common/base_layer.py", True),
        ("axlearn/common/attention.py", False),
        ("site-packages/easydel/modules/_base/causal_lm_module.py", True),
        ("site-packages/easydel/modules/llama/modeling_llama.py", False),
        ("site-packages/counterpoint/lowering/emulator/transformer_engine.py", True),
        ("/home/me/counterpoint/examples/llama.py", False),
        ("/home/me/model/sharding.py", False),
        ("", False),
    ],
)
def test_files_of_a_framework(path: str, expected: bool) -> None:
    assert is_framework_file(path) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('name = "x"\npackages = ["x"]\n[step]\nlines = ["step (.*)"]', "no group `step`"),
        ('name = "x"', "packages"),
        ('name = "x"\npackages = "x"', "array"),
    ],
)
def test_an_invalid_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_trainer(text)


def test_no_trainer_is_imported() -> None:
    """Adding a trainer adds one file: no module of Counterpoint imports one."""
    packages = {name for trainer in trainers() for name in trainer.packages}
    importing = re.compile(rf"^\s*(?:import|from) (?:{'|'.join(packages)})\b", re.MULTILINE)
    found = [
        str(path) for path in package_source.sources() if importing.search(Path(path).read_text())
    ]
    assert found == []


MAXTEXT_COMMAND = "python -m maxtext.trainers.pre_train.train base.yml steps=30"
LEVANTER_COMMAND = "python -m levanter.main.train_lm --config_path nano.yaml"
NANO = """
model: {max_seq_len: 256}
trainer:
  train_batch_size: 16
  profiler: {enabled: true}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "nano.yaml").write_text(NANO)
    (tmp_path / "base.yml").write_text(
        "profiler: xplane\nper_device_batch_size: 2\nmax_target_length: 512\n"
    )
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (MAXTEXT_COMMAND, "profiler=xplane"),
        (f"{MAXTEXT_COMMAND} profiler=", None),
        (f"{MAXTEXT_COMMAND} profiler=nsys", None),
        (LEVANTER_COMMAND, "trainer.profiler.enabled=true"),
        (f"{LEVANTER_COMMAND} --trainer.profiler.enabled false", None),
        (f"{LEVANTER_COMMAND} --trainer.profiler.enabled=true", "trainer.profiler.enabled=true"),
        ("python -m levanter.main.train_lm --config_path missing.yaml", None),
        ("python -m levanter.main.train_lm --config_path broken.yaml", None),
        ("python -m axlearn.common.launch_trainer_main --trace_at_steps=5", "trace_at_steps=5"),
    ],
)
def test_a_profiler_that_is_switched_on_is_found(
    directory: Path, command: str, expected: str | None
) -> None:
    trainer = find_trainer(command.split())
    assert trainer is not None
    assert own_profile_option(trainer, command.split(), directory) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (MAXTEXT_COMMAND, StepTokens(1024, per_device=True)),
        (f"{MAXTEXT_COMMAND} per_device_batch_size=0.5", StepTokens(256, per_device=True)),
        (f"{MAXTEXT_COMMAND} max_target_length=many", None),
        (
            f"{MAXTEXT_COMMAND} gradient_accumulation_steps=2",
            StepTokens(2048, per_device=True),
        ),
        (LEVANTER_COMMAND, StepTokens(4096, per_device=False)),
        (f"{LEVANTER_COMMAND} --trainer.train_batch_size 32", StepTokens(8192, per_device=False)),
    ],
)
def test_the_tokens_of_a_step_follow_from_batch_and_sequence(
    directory: Path, command: str, expected: StepTokens | None
) -> None:
    trainer = find_trainer(command.split())
    assert trainer is not None
    assert tokens_of(trainer, command.split(), directory) == expected
