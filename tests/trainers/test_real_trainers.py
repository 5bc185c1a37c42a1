"""Real trainers, run as their users do: steps are those of their own lines.

`tests/install_trainer.sh` installs them in a cache outside the checkout: `make trainers`, and for
MaxText and Tunix `make test`. Without that, these tests are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import counterpoint
from counterpoint.runs import read_run

pytestmark = pytest.mark.slow

MAXTEXT = """
    hardware=cpu attention=dot_product dataset_type=synthetic enable_checkpointing=false run_name=t
    base_output_directory=./out steps=24 base_emb_dim=256 base_num_query_heads=4
    base_num_kv_heads=4 base_mlp_dim=512 base_num_decoder_layers=4 head_dim=64
    per_device_batch_size=1 max_target_length=256 vocab_size=1024 log_config=false
    enable_goodput_recording=false monitor_goodput=false skip_jax_distributed_system=true
"""
TUNIX = """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
from tunix.sft import peft_trainer

class Model(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(512, 128, rngs=rngs)
        self.up = nnx.Linear(128, 512, rngs=rngs)
        self.head = nnx.Linear(512, 512, rngs=rngs)

    def __call__(self, input_tokens, positions=None, cache=None, attention_mask=None):
        return self.head(nnx.gelu(self.up(self.embed(input_tokens)))), None

config = peft_trainer.TrainingConfig(eval_every_n_steps=1000, max_steps=24)
trainer = peft_trainer.PeftTrainer(Model(nnx.Rngs(0)), optax.adamw(1e-3), config)
trainer = trainer.with_gen_model_input_fn(lambda x: {
    "input_tokens": x.input_tokens, "input_mask": x.input_mask,
    "positions": jnp.arange(128)[None], "attention_mask": None})
tokens = np.random.default_rng(0).integers(0, 512, (16, 128))
one = peft_trainer.TrainingInput(input_tokens=tokens, input_mask=np.ones((16, 128), bool))
trainer.train(iter([one] * 24))
"""


def python_of(trainer: str) -> str:
    """The Python of a trainer's environment, which an earlier command has installed."""
    found = os.environ.get(f"COUNTERPOINT_{trainer.upper()}")
    if not found or not (Path(found) / "bin" / "python").exists():
        pytest.skip(f"{trainer} is not installed: make trainers")
    return str(Path(found) / "bin" / "python")


def run(directory: Path, *command: str) -> str:
    variables = {
        "DECOUPLE_GCLOUD": "TRUE",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    words = [sys.executable, "-m", "counterpoint", "run", "-o", "run", "--", *command]
    done = subprocess.run(
        words,
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def test_maxtexts_steps_take_what_it_prints(tmp_path: Path) -> None:
    program = [python_of("maxtext"), "-m", "maxtext.trainers.pre_train.train", *MAXTEXT.split()]
    printed = run(tmp_path, *program)
    lines = re.findall(r"completed step: (\d+), seconds: ([\d.]+)", printed)
    own = {int(step): float(seconds) for step, seconds in lines}
    assert sorted(own) == list(range(24))

    rank = read_run(tmp_path / "run").ranks[0]
    assert [start.step for start in rank.steps] == list(range(24))
    usual = median(seconds for step, seconds in own.items() if step > 3)
    # On a busy machine the two differ by more than the few percent of docs/trainers/maxtext.md;
    # steps that were found twice, or every other one, differ by a factor of two.
    assert median(rank.step_seconds[3:]) == pytest.approx(usual, rel=0.3)
    timeline = counterpoint.read(tmp_path / "run")
    explanation = counterpoint.explain(timeline)
    assert "train" in timeline.step_rule
    assert explanation.steps.count >= 5
    assert explanation.phases is not None
    assert re.search(r"tokens   [\d,]+ per second, [\d,]+ on each device: 512 in a step", printed)


def test_tunixs_steps_are_found_by_their_markers(tmp_path: Path) -> None:
    (tmp_path / "sft.py").write_text(TUNIX)
    run(tmp_path, python_of("tunix"), "sft.py")
    timeline = counterpoint.read(tmp_path / "run")
    explanation = counterpoint.explain(timeline)
    assert "train" in timeline.step_rule
    assert explanation.steps.count >= 5
    assert [program.name for program in explanation.programs if program.is_step] == [
        "jit__train_step"
    ]
