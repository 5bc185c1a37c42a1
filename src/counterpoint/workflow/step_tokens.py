"""The tokens of a training step, counted from the program: its batch is an argument.

The options of a trainer do not tell all: with gradient accumulation, a step trains several batches.
The lowered step has them all as one argument of integers, [sequences, length].
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.hlo.phase import BACKWARD
from counterpoint.trainers import TokensInStep

_MAIN: Final = re.compile(rb" @main\((.*?)\) -> ")
_ARGUMENT: Final = re.compile(rb"%arg\d+: tensor<((?:\d+x){2,3})(i32|i64)>([^%]*)")
_KEPT: Final = re.compile(rb"tf\.aliasing_output|jax\.buffer_donor")
_VECTORS: Final = re.compile(rb"tensor<(\d+)x(\d+)x(\d+)x(?:bf16|f\d+)\w*>")
_REPLICAS: Final = re.compile(rb"mhlo\.num_replicas = (\d+)")
_BACKWARD: Final = BACKWARD.encode()
_LEAST_VECTOR: Final = 8


def tokens_of_program(workload: Workload) -> TokensInStep | None:
    """Return the tokens of a training step; None if no argument shows them.

    Of the arguments that are not state, it is the largest whose elements each become a vector:
    [sequences, length] while the program has activations [.., length, features]. One element more
    in each sequence is the last target.
    """
    text = workload.program
    main = _MAIN.search(text)  # only StableHLO has it
    if main is None or _BACKWARD not in text:
        return None
    activations = {tuple(map(int, sizes)) for sizes in _VECTORS.findall(text)}
    counted = [
        (math.prod(shape[:-1]) * length, shape, kind)
        for shape, kind in _batches(main[1])
        if (length := _length(shape, activations))
    ]
    if not counted:
        return None
    count, shape, kind = max(counted)
    replicas = _REPLICAS.search(text)
    copies = int(replicas[1]) if replicas else 1
    dims = ", ".join(map(str, shape))
    each = " of each device" if copies > 1 else ""
    return TokensInStep(
        count * copies, workload.devices, f"the step's argument int{kind[1:]}[{dims}]{each}"
    )


def _batches(arguments: bytes) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield shape and type of each argument of signed integers that the step does not update."""
    for dims, kind, attributes in _ARGUMENT.findall(arguments):
        if not _KEPT.search(attributes):
            shape = tuple(int(size) for size in dims.rstrip(b"x").split(b"x"))
            yield shape, kind.decode()


def _length(shape: tuple[int, ...], activations: set[tuple[int, ...]]) -> int | None:
    """Return how many elements of each sequence become vectors, if any do."""
    sequences, length = math.prod(shape[:-1]), shape[-1]
    for trained in (length, length - 1):
        if trained > 1 and any(
            of_length == trained and features >= _LEAST_VECTOR and sequences % batch == 0
            for batch, of_length, features in activations
        ):
            return trained
    return None
