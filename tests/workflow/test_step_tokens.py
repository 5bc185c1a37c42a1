"""The tokens of a step are counted in the program's own arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.compile.inputs.workload import load_workload
from counterpoint.workflow.step_tokens import tokens_of_program

PROGRAM = """
module @jit_train_step attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = {replicas} : i32}} {{
  func.func public @main({arguments}) -> (tensor<64x64xf32>) {{
    %0 = stablehlo.add %a, %a : tensor<{activations}xbf16> loc("{scope}dot")
  }}
}}
"""  # noqa: E501
STATE = "%arg0: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}"
KEY = "%arg1: tensor<9999x4xui32>"
TOKENS = '%arg2: tensor<32x4096xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}'
BACKWARD = "transpose(jvp(loss))/"


@pytest.mark.parametrize(
    ("arguments", "activations", "scope", "replicas", "expected"),
    [
        # As MaxText with gradient_accumulation_steps=2: half of the sequences at a time.
        ((STATE, KEY, TOKENS, TOKENS), "16x4096x64", BACKWARD, 1, 131072),
        ((STATE, "%arg1: tensor<32x4097xi32>"), "32x4096x64", BACKWARD, 1, 131072),
        ((STATE, "%arg1: tensor<2x16x4096xi64>"), "16x4096x64", BACKWARD, 1, 131072),
        ((STATE, TOKENS), "32x4096x64", BACKWARD, 8, 8 * 131072),  # pmap: of each device
        ((STATE, f"{TOKENS} {{jax.buffer_donor = true}}"), "32x4096x64", BACKWARD, 1, None),
        ((STATE, "%arg1: tensor<32x10xi32>"), "32x4096x64", BACKWARD, 1, None),  # classes
        ((STATE, TOKENS), "32x4096x64", "", 1, None),  # no training
        ((STATE, TOKENS), "32x4096x2", BACKWARD, 1, None),
        ((STATE, "%arg1: tensor<32xi32>"), "32x28x28", BACKWARD, 1, None),
    ],
    ids=[
        "accumulated",
        "with the last target",
        "microbatches",
        "of each device",
        "state",
        "classes",
        "inference",
        "no vectors",
        "labels",
    ],
)
def test_tokens_are_the_elements_that_become_vectors(
    tmp_path: Path,
    arguments: tuple[str, ...],
    activations: str,
    scope: str,
    replicas: int,
    expected: int | None,
) -> None:
    path = tmp_path / "step.mlir"
    path.write_text(
        PROGRAM.format(
            arguments=", ".join(arguments), activations=activations, scope=scope, replicas=replicas
        )
    )

    found = tokens_of_program(load_workload(path))

    assert (found and found.count) == expected
