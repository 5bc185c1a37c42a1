"""What XLA's scheduler makes of a program under costs, and what it counts: live, or kept in files.

    python tests/xla_schedules.py      writes tests/simulate/data; needs XLA's GPU compiler

The files in the repository were written with jax 0.10.2.
"""

from __future__ import annotations

import json
import lzma
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.lookups import cost_name
from xla_compiler import Compiler

DATA: Final = Path(__file__).parent / "simulate" / "data"
MODELS: Final = ("small", "unrolled", "step")
LOUD: Final = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "latency_hiding_scheduler=1"}
_TOTALS: Final = re.compile(r"Total (wasted )?cycles: ([\d.e+]+)")


@dataclass(frozen=True)
class Schedule:
    """A scheduled program, the costs that it was scheduled with, and the scheduler's account."""

    hlo: bytes
    us: Mapping[str, float]
    """By the names that XLA asks for."""
    totals: list[tuple[float, float]]
    """Total and waste of every computation, in microseconds."""

    @property
    def program(self) -> Program:
        return read_program(self.hlo)


def scheduled(compiler: Compiler, model: str, path: Path) -> Schedule:
    """Compile a model under a profile with a cost for everything, much longer than XLA's counts."""
    chance = np.random.default_rng(1)
    us = {
        cost_name(it): round(float(chance.uniform(300, 3000)), 1)
        for computation in launched(compiler.compile(model).program)
        for it in computation.instructions
        if launches(it) and not is_done(it)
    }
    path.write_text("\n".join(f'costs {{ name: "{n}" cost_us: {us[n]} }}' for n in us))
    compilation = compiler.with_profile(model, path)
    return Schedule(compilation.hlo.read_bytes(), us, _told(compilation.log))


def _told(log: str) -> list[tuple[float, float]]:
    """The account after scheduling; XLA logs one from before, too."""
    found = [(match[1], float(match[2])) for match in _TOTALS.finditer(log)]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all(wasted[0] and not total[0] for wasted, total in pairs)
    return [(total[1], wasted[1]) for wasted, total in pairs[len(pairs) // 2 :]]


def kept(model: str) -> Schedule:
    """The same from the files."""
    found = json.loads((DATA / f"{model}.json").read_text())
    hlo = lzma.decompress((DATA / f"{model}.hlo.pb.xz").read_bytes())
    return Schedule(hlo, found["us"], [(total, wasted) for total, wasted in found["totals"]])


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        compiler = Compiler(Path(scratch), LOUD)
        for model in MODELS:
            made = scheduled(compiler, model, Path(scratch) / f"{model}.pbtxt")
            (DATA / f"{model}.hlo.pb.xz").write_bytes(lzma.compress(made.hlo, preset=9))
            account = {"us": made.us, "totals": made.totals}
            (DATA / f"{model}.json").write_text(json.dumps(account, indent=1) + "\n")
        compiler.close()


if __name__ == "__main__":
    main()
