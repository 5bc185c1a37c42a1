"""Lower one step of examples/llama.py, for `published.py`: DEVICES SIZE FILE [SETTING=VALUE ...].

In a process of its own: how many devices JAX has is settled when it starts.
"""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path


def main() -> None:
    """Write the step as StableHLO."""
    devices, size, out, *pairs = sys.argv[1:]
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_num_cpu_devices", int(devices))
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import llama

    settings = dict(pair.split("=", 1) for pair in pairs)
    step, arguments = llama.make_step(int(devices), size, **settings)
    lowered = step.trace(*arguments).lower(lowering_platforms=("cuda",))
    text = lowered.as_text(debug_info=True)
    Path(out).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
