"""What `counterpoint flags check FILE --no-probe` takes as a whole process, on 200 flags.

    python benchmarks/flags_check.py [RUNS]

The time of a bare interpreter is measured beside it, since a busy machine slows down both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from counterpoint.flags.catalogue.lookup import release
from fresh_process import run

FLAGS = 200
RELEASE = "0.10.2"
KINDS = ("bool", "int32", "int64", "float")


def flags() -> str:
    """A line for each of the first flags of the release, with another value than its default."""
    known = [flag for flag in release(RELEASE).flags.values() if flag.xla_flags and flag.default]
    plain = [flag for flag in known if flag.type in KINDS][:FLAGS]
    values = {"true": "false", "false": "true"}
    return "".join(f"--{flag.name}={values.get(flag.default, flag.default)}\n" for flag in plain)


def main() -> None:
    """Print the least and the median of some runs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        text = flags()
        (directory / "flags.txt").write_text(text)
        check = ["-m", "counterpoint", "flags", "check", str(directory / "flags.txt")]
        options = ["--no-probe", "--jaxlib", RELEASE, "--ignore", "FLAG203"]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(directory)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, *check, *options]
        subprocess.run(command, env=environment, capture_output=True, check=False)  # compiles
        os.environ.update(environment)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        print(f"{text.count(chr(10))} flags, {runs} runs each")
        for what, words in (
            ("flags check", command),
            ("python -c pass", [sys.executable, "-c", ""]),
        ):
            trials = [run(words, directory) for _ in range(runs)]
            wall = [trial.seconds for trial in trials]
            cpu = [trial.cpu_seconds for trial in trials]
            print(
                f"{what:<16} wall {min(wall):.3f} s (median {median(wall):.3f}),"
                f" CPU {min(cpu):.3f} s (median {median(cpu):.3f})"
            )


if __name__ == "__main__":
    main()
