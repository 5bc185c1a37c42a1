"""Read the flags of releases of libtpu out of libtpu itself, into flags/catalogue/libtpu.jsonl.

    python tools/libtpu_flags.py 0.0.42.1=PATH/libtpu.so 0.0.50.1=PATH/libtpu.so

needs JAX, and no TPU; a release takes a minute or so. libtpu lists no flags. But it says of every
name in LIBTPU_INIT_ARGS that it does not know, and of every value that a flag rejects, and so does
a compile of its options. The candidates are the words in the library that look like a flag.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.flag import FlagTable, make_table, render_table

TABLE: Final = (
    Path(__file__).parent.parent / "src" / "counterpoint" / "flags" / "catalogue" / "libtpu.jsonl"
)
_WORD: Final = re.compile(rb"(?<![\w-])((?:xla|megascale|tpu|jf)_[a-z0-9_]{3,90})\0")
_UNKNOWN: Final = re.compile(r"Unknown command line flag '([^']+)'")
_ILLEGAL: Final = re.compile(r"Illegal value '[^']*' specified for flag '([^']+)'")
_NO_OPTION: Final = "No such compile option"
_VALUES: Final = (
    re.compile(r"Valid options are: ([^\n]*?)\.?(?:\n|$)"),
    re.compile(r"Supported values are: ([^\n]*?)\.?(?:\n|$)"),
)
_AT_ONCE: Final = 400
_NO_SUCH: Final = "xla_no_such_flag"
_BAD: Final = "~bad"
# The first whose value a flag accepts says its type; `true` is no number, and 7 is no bool.
_TRIED: Final = (
    (_BAD, "string"),
    ("true", "bool"),
    ("1.5", "float"),
    ("7", "int64"),
    ("5s", "duration"),
)
_ENVIRONMENT: Final = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
_START: Final = """
from jax.experimental import topologies
topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
"""
_OPTIONS: Final = """
import json, sys
import jax, jax.numpy as jnp
from jax.experimental import topologies
topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
place = jax.sharding.SingleDeviceSharding(topology.devices[0])
shape = jax.ShapeDtypeStruct((8, 128), jnp.float32, sharding=place)
lowered = jax.jit(lambda x: x + 1).trace(shape).lower()
told = open(sys.argv[2], "a")
for name in json.load(open(sys.argv[1])):
    print(json.dumps(name), file=told, flush=True)  # what follows may abort the process
    try:
        lowered.compile(compiler_options={name: "~bad"})
        answer = ""
    except Exception as error:
        answer = str(error)
    print(json.dumps(answer), file=told, flush=True)
"""


def main(arguments: Sequence[str]) -> int:
    """Write the table of the releases that are named, oldest first."""
    found: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for argument in arguments:
        version, _, library = argument.partition("=")
        found[version] = facts_of(Path(library))
        sys.stderr.write(f"libtpu {version}: {len(found[version]):,} flags\n")
    table: FlagTable = make_table(found)
    TABLE.write_text(render_table(table), encoding="utf-8")
    return 0


def facts_of(library: Path) -> dict[str, dict[str, Any]]:
    """Return the facts on each flag of a library, as the catalogue has them."""
    words = sorted({word.decode() for word in _WORD.findall(library.read_bytes())})
    unknown = set(_UNKNOWN.findall("".join(_refusals(library, words, _BAD))))
    names = [word for word in words if word not in unknown]
    types = dict.fromkeys(names, "enum")
    for value, kind in reversed(_TRIED):
        illegal = set(_ILLEGAL.findall("".join(_refusals(library, names, value))))
        types |= {name: kind for name in names if name not in illegal}
    options = _as_options(library, names)
    return {name: _facts(types[name], options[name]) for name in names}


def _facts(kind: str, as_option: str) -> dict[str, Any]:
    """Return the facts on one flag: its type, and what a compile said of it as an option."""
    per_compile = _NO_OPTION not in as_option
    listed = next((found[1] for each in _VALUES if (found := each.search(as_option))), "")
    values = sorted({value.strip() for value in listed.split(",")} - {""})
    facts: dict[str, Any] = {"type": "enum" if values and kind != "string" else kind}
    if values:
        facts["values"] = values
    return facts if per_compile else {**facts, "compile_option": False}


def _refusals(library: Path, names: Sequence[str], value: str) -> Iterator[str]:
    """Yield what libtpu says of these flags; one more that it does not know ends it early."""
    for start in range(0, len(names), _AT_ONCE):
        flags = [f"--{name}={value}" for name in names[start : start + _AT_ONCE]]
        said = _run(
            library, ["-c", _START], {"LIBTPU_INIT_ARGS": " ".join([*flags, f"--{_NO_SUCH}=1"])}
        )
        if _NO_SUCH not in said:
            raise SystemExit(f"{library} did not list unknown flags:\n{said[-2000:]}")
        yield said.replace(f"'{_NO_SUCH}'", "''")


def _as_options(library: Path, names: Sequence[str]) -> dict[str, str]:
    """Return what a compile says of a bad value of each; an empty text: it accepts any.

    An option may abort the process, so that is one it accepts; the next process goes on behind it.
    """
    answers: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        asked, told = Path(scratch) / "names.json", Path(scratch) / "answers.jsonl"
        while left := [name for name in names if name not in answers]:
            asked.write_text(json.dumps(left), encoding="utf-8")
            told.write_text("", encoding="utf-8")
            said = _run(library, ["-c", _OPTIONS, str(asked), str(told)], {})
            lines = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
            if not lines:
                raise SystemExit(f"{library}: no compile began:\n{said[-2000:]}")
            answers |= dict(zip(lines[::2], [*lines[1::2], ""], strict=False))
    return answers


def _run(library: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    environment = {**os.environ, **_ENVIRONMENT, **variables, "TPU_LIBRARY_PATH": str(library)}
    done = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
