"""Records data/jax-0.12-cpu.xplane.riegeli: a capture that JAX wrote piece by piece.

    .venv-newest/bin/python tests/timeline/riegeli_recording.py

XLA takes the pieces every two to five seconds, so twelve small steps are spread over ten.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp

INTO = Path(__file__).parent / "data" / "jax-0.12-cpu.xplane.riegeli"
STEPS = 12
PAUSE_S = 0.8


def main() -> int:
    """Record, and keep the file."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.advanced_configuration = {"enable_continuous_profiling": True}
    step = jax.jit(lambda x: jnp.tanh(x @ x) + x)
    x = step(jnp.ones((64, 64))).block_until_ready()
    with tempfile.TemporaryDirectory() as scratch:
        jax.profiler.start_trace(scratch, profiler_options=options)
        for number in range(STEPS):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                x = step(x).block_until_ready()
            time.sleep(PAUSE_S)
        jax.profiler.stop_trace()
        (made,) = Path(scratch).rglob("*.xplane.riegeli")
        INTO.parent.mkdir(exist_ok=True)
        shutil.move(made, INTO)
    print(f"{INTO}: {INTO.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
