"""What an example says of command lines that it can't follow: EXAMPLE, and them as JSON on stdin.

In one process, since importing JAX is what takes time. JSON: the last line of the error by the
command line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib import import_module
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

name = sys.argv[1]
example = import_module(name)
told: dict[str, str] = {}
for words in json.load(sys.stdin):
    sys.argv = [f"{name}.py", *words.split()]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
            example.main()
    except SystemExit as end:
        if end.code:
            if isinstance(end.code, str):  # argparse printed its own
                printed.write(end.code)
            told[words] = printed.getvalue().splitlines()[-1]
print(json.dumps(told))
