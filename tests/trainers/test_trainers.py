"""What is known of each trainer: its file is valid, recognizes it, and reads what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import package_source
from counterpoint.trainers import find_trainer, is_framework_file, read_trainer, trainers

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
PRINTED = {
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
        ("/env/lib/python3.12/site-packages/maxtext/layers/linears.py", False),
        ("axlearn/common/module.py", True),
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
