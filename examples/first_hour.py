"""A small language model that trains on the text of this file, for the tutorial.

In each step Python cuts a batch out of the text and turns its words into numbers while the device
waits. `--tokenize-first` does that before the training begins.

    counterpoint run -o before -- python examples/first_hour.py
    counterpoint run -o after -- python examples/first_hour.py --tokenize-first
    counterpoint compare before after
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

STEPS = 40
BATCH, LENGTH, WIDTH, VOCABULARY = 16, 32, 32, 512
LONGEST = 16  # letters of a token
COPIES = 10  # of the text

Weights = dict[str, Array]


def main() -> None:
    """Train, and print the loss of every step."""
    parser = argparse.ArgumentParser(description="Train a small language model.")
    parser.add_argument("--tokenize-first", action="store_true", help="not in each step")
    options = parser.parse_args()
    text = Path(__file__).read_text("utf-8") * COPIES
    batch_of = batches_in_advance(text) if options.tokenize_first else batches_on_demand(text)
    weights = initial_weights()
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            with jax.profiler.TraceAnnotation("next batch"):
                batch = batch_of(step)
            weights, loss = train_step(weights, jnp.asarray(batch))
            print(f"step {step} loss {float(loss):.3f}", flush=True)


def batches_on_demand(text: str) -> Callable[[int], np.ndarray]:
    """Each batch is made from the text when it is needed."""
    return lambda step: tokenize(text, step)


def batches_in_advance(text: str) -> Callable[[int], np.ndarray]:
    """All batches are made now."""
    batches = [tokenize(text, step) for step in range(STEPS)]
    return lambda step: batches[step]


def tokenize(text: str, step: int) -> np.ndarray:
    """The tokens of one batch: at each place the longest one that is known."""
    known = {token: number for number, token in enumerate(vocabulary(text))}
    starts = [
        (7919 * (step * BATCH + row)) % (len(text) - LONGEST * LENGTH) for row in range(BATCH)
    ]
    return np.array([tokens_from(text, start, known) for start in starts], dtype=np.int32)


def tokens_from(text: str, at: int, known: dict[str, int]) -> list[int]:
    """As many tokens as the model takes, beginning at one place of the text."""
    found: list[int] = []
    while len(found) < LENGTH:
        size = next((size for size in range(LONGEST, 1, -1) if text[at : at + size] in known), 1)
        found.append(known.get(text[at : at + size], 0))
        at += size
    return found


def vocabulary(text: str) -> list[str]:
    """The parts of the text that occur most often."""
    page = text[: len(text) // COPIES]
    counted = Counter(
        page[at : at + size] for size in range(1, LONGEST + 1) for at in range(len(page) - size)
    )
    return [token for token, _ in counted.most_common(VOCABULARY)]


def initial_weights() -> Weights:
    """Small random numbers."""
    one, two, three = jax.random.split(jax.random.key(0), 3)
    return {
        "embedding": 0.1 * jax.random.normal(one, (VOCABULARY, WIDTH)),
        "hidden": 0.1 * jax.random.normal(two, (WIDTH, WIDTH)),
        "output": 0.1 * jax.random.normal(three, (WIDTH, VOCABULARY)),
    }


def loss_of(weights: Weights, batch: Array) -> Array:
    """The mean cost of guessing the next token."""
    hidden = jax.nn.relu(weights["embedding"][batch[:, :-1]] @ weights["hidden"])
    logs = jax.nn.log_softmax(hidden @ weights["output"])
    return -jnp.take_along_axis(logs, batch[:, 1:, None], axis=-1).mean()


@jax.jit
def train_step(weights: Weights, batch: Array) -> tuple[Weights, Array]:
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda one, slope: one - 4.0 * slope, weights, gradients), loss


if __name__ == "__main__":
    main()
