"""A program for real trials that needs no JAX: it says itself how long its steps take.

So nothing depends on how busy a machine is. What it says varies from run to run by a fixed row of
numbers: the n-th run of a counter's file always says the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """
import os, pathlib, random, sys, time

counter = pathlib.Path(sys.argv[1])
with counter.open("a") as file:
    file.write("x")
run = counter.stat().st_size
does = os.environ.get("DOES", "")
chance = random.Random(run)
seconds = 0.1 * (1 - float(os.environ.get("SAVES", "0"))) * chance.gauss(1, 0.001)
steps = int(os.environ.get("STEPS", "24"))
if str(run) in os.environ.get("BLIND", "").split():
    steps = 0
for step in range(steps):
    if does == "crash" and step == 3:
        raise RuntimeError("planted")
    if does == "hang" and step == 3:
        time.sleep(600)
    if does == "full" and step == 3:
        raise OSError(28, "No space left on device")
    loss = float("nan") if does == "nan" and step > 3 else 4 - 0.1 * step
    if does == "other":
        loss += 0.5
    own = seconds * chance.gauss(1, 0.002)
    print(f"completed step: {step}, seconds: {own:.6f}, loss: {loss}", flush=True)
    time.sleep(float(os.environ.get("SLEEPS", "0")))
"""


def program(directory: Path) -> tuple[str, ...]:
    """Its command; the variables DOES, SAVES, SLEEPS and STEPS say what it does.

    The runs that BLIND counts print no steps, as if the machine were too busy.
    """
    script = directory / "train.py"
    script.write_text(_PROGRAM, encoding="utf-8")
    return (sys.executable, str(script), str(directory / "counter"))
