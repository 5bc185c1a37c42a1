"""Records what libtpu's scheduler saw of a step, without a profile and with one: tests/pgle/data.

python tests/pgle/make_tpu_schedules.py      # needs the extra tpu, and no TPU
"""

from __future__ import annotations

import lzma
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.hardware.targets import parse_target
from counterpoint.pgle.applying.libtpu import INIT_ARGS, profile_argument, tpu_profile
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from layers_of_products import COSTS, made_of_layers

DATA = Path(__file__).parent / "data"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        step = Path(scratch) / "step.mlir"
        step.write_text(made_of_layers())
        schedule = partial(
            compile_workload,
            load_workload(step),
            parse_target("v5e-4", tpus=True),
            schedule_only=True,
        )
        compiled, without = schedule(), schedule(scheduler_view=True)
        profile = Profile(tuple(InstructionCost(name, us) for name, us in COSTS.items()))
        given = tpu_profile(profile, compiled.program, without)
        file = write_profile(given.file, Path(scratch) / "libtpu.pb")
        told = {INIT_ARGS: profile_argument(file)}
        recorded = {
            "tpu_compiled": compiled.hlo,
            "tpu_without": without.hlo,
            "tpu_with": schedule(environment=told, scheduler_view=True).hlo,
        }
    for name, data in recorded.items():
        (DATA / f"{name}.hlo.pb.xz").write_bytes(lzma.compress(data, preset=9))


if __name__ == "__main__":
    main()
