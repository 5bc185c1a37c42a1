"""Run one program of the zoo: `python benchmarks/causes/program.py inputs.sleeping_loader ...`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import jax
from recorder import WAYS, Recorder


def main() -> None:
    """Run the program named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--way", choices=WAYS, default="markers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fixed", action="store_true", help="without its trouble")
    parser.add_argument("--job", help="one of several processes: ADDRESS,COUNT,RANK")
    given = parser.parse_args()
    if given.job:
        address, count, rank = given.job.split(",")
        jax.distributed.initialize(address, int(count), int(rank))
    module, name = given.name.split(".")
    program = getattr(import_module(f"programs.{module}"), name)
    program(Recorder(given.way, given.out, given.fixed))


if __name__ == "__main__":
    main()
