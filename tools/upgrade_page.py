"""docs/releases-of-jax.md: what each release of JAX did to the steps of real programs.

    python tools/upgrade_page.py docs/releases-of-jax.md llama
    python tools/upgrade_page.py docs/releases-of-jax.md maxtext-7b --programs DIRECTORY

Each run replaces one program's section and keeps the others. It installs and compiles with every
release, which takes minutes each, so `make docs` does not run it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError
from counterpoint.core.printable import some
from counterpoint.flags.history import ReleaseDiff
from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.report import units
from counterpoint.workflow.upgrade import (
    LEAST_MOVE,
    LeftOutFlag,
    ReleaseStep,
    StepChangeOfKind,
    Upgrade,
    UpgradeOptions,
    upgrade,
)
from counterpoint.workflow.upgrade.upgrade import compared

ROOT: Final = Path(__file__).parents[1]
_KINDS: Final = 3
_FLAGS: Final = 6
_MS: Final = 1e3
_LEAST: Final = 1e-4  # share of the step

HEAD: Final = f"""# What each release of JAX did to a step

Made by `tools/upgrade_page.py`, which predicts each program with every release as `counterpoint
upgrade --bisect` does: each release is installed in an environment of its own, lowers the step
(StableHLO is lowered already), and compiles it. One cost model prices all of them on one
target, so a difference comes from the compiled programs alone. No machine would show exactly it.
**Predicted, not measured**: kernels are not autotuned, so what a release gained with better
kernels of its own does not show. [`upgrade`](guide/upgrade.md) says the same of your step.

A row is a release of JAX with the jaxlib of its version, and compares it with the release above
it. *exposed* is the communication that the step waits for; *memory* is that of arguments,
results and temporaries. Changes of the step below {LEAST_MOVE:.1%} are not explained in words.
`same program` means the same ops, order, times and memory, whatever their names.
"""


@dataclass(frozen=True)
class Subject:
    """A program of the page."""

    title: str
    source: str
    target: str
    text: str


SUBJECTS: Final = {
    "llama": Subject(
        "Llama 8B on 8 H100",
        "examples/llama.py:make_step",
        "8xH100",
        "`examples/llama.py:make_step` with its defaults, and no flags.",
    ),
    "maxtext-7b": Subject(
        "MaxText Llama 2 7B on 8 H100",
        "llama2_7b_8_noscan.mlir.gz",
        "8xH100",
        "StableHLO that MaxText lowered, layers unrolled, with the XLA flags that NVIDIA published"
        " for it.",
    ),
    "maxtext-70b": Subject(
        "MaxText Llama 2 70B on 64 H100",
        "llama2_70b_64.mlir.gz",
        "8x8xH100",
        "StableHLO that MaxText lowered, layers in a loop, with the XLA flags that NVIDIA published"
        " for it.",
    ),
    "maxtext-70b-128": Subject(
        "MaxText Llama 2 70B on 128 H100",
        "llama2_70b_128.mlir.gz",
        "16x8xH100",
        "StableHLO that MaxText lowered, layers in a loop, with the XLA flags that NVIDIA published"
        " for it.",
    ),
}


def section(name: str, subject: Subject, steps: Sequence[ReleaseStep], day: str) -> str:
    """Return a program's part of the page."""
    target = parse_target(subject.target)
    done = [step.side for step in steps if step.side is not None]
    found = [compared(one, other, target) for one, other in pairwise(done)]
    changes = {it.after.installation.jax: it for it in found}
    lines = [f"<!-- {name} -->", f"## {subject.title}", "", f"{subject.text} {day}.", ""]
    lines += [
        "| jax | step ms | change | exposed ms | memory | what changed |",
        "|---|---:|---:|---:|---:|---|",
    ]
    lines += [_row(step, changes.get(step.version)) for step in steps]
    lines += _left_out([(side.installation.jax, side.left_out) for side in done])
    for it in found:
        if abs(it.change) > LEAST_MOVE:
            lines += ["", *_explained(it)]
    return "\n".join([*lines, f"<!-- end of {name} -->"])


def _row(step: ReleaseStep, change: Upgrade | None) -> str:
    if step.side is None:
        why = step.error.what if step.error else "unknown"
        return f"| {step.version} | | | | | {_cell(why)} |"
    forecast = step.side.forecast
    held = units.size(step.side.held_bytes)
    exposed = units.column([forecast.simulation.exposed_s * _MS])[0]
    cells = [step.version, units.column([forecast.step_s * _MS])[0]]
    cells += ["" if change is None else f"{change.change:+z.1%}", exposed, held]
    return f"| {' | '.join([*cells, '' if change is None else _what(change)])} |"


def _what(change: Upgrade) -> str:
    if change.is_same_program:
        return "same program"
    if change.has_same_ops:
        return "memory only"
    step_ms = change.before.forecast.step_s * _MS
    large = [it for it in change.changes if abs(it.difference_ms) > _LEAST * step_ms]
    return "; ".join(_kind(it) for it in large[:_KINDS]) or "another program, as long"


def _kind(one: StepChangeOfKind) -> str:
    return f"{one.kind} {units.differences([one.difference_ms])[0]} ms"


def _explained(change: Upgrade) -> Iterator[str]:
    """Yield what a release changed, the largest difference of each kind, and flags."""
    before, after = change.before.installation.jax, change.after.installation.jax
    reach = change.reach
    span = f"range {reach.low:+.1%} to {reach.high:+.1%}"
    yield f"**{before} to {after}**: {change.change:+z.1%} ({span})"
    yield ""
    for kind in change.changes[: 2 * _KINDS]:
        row = kind.rows[0]
        ops = f"{kind.a_ops:,} ops before, {kind.b_ops:,} after"
        place = row.shown.source or row.shown.scope
        where = f"; most of it at `{Path(place).name}`" if place else ""
        yield f"- {_kind(kind)}: {ops}{where}"
    flags = change.flags
    if isinstance(flags, ReleaseDiff):
        changed = [
            f"`{it.flag.name}` {it.before or 'empty'} to {it.after or 'empty'}"
            for it in flags.changed
            if it.what == "default" and len(it.before) + len(it.after) < 40
        ]
        if changed:
            yield f"- new defaults: {some(changed, _FLAGS)}"


def _left_out(left_out: Sequence[tuple[str, Sequence[LeftOutFlag]]]) -> Iterator[str]:
    """Yield the flags that releases do not accept, each with the releases."""
    releases: dict[str, list[str]] = {}
    for version, flags in left_out:
        for flag in flags:
            releases.setdefault(f"`{flag.name}`", []).append(version)
    if releases:
        yield ""
        yield "Flags of the program that a release does not accept, and that were left out there:"
        yield ""
        for name, versions in releases.items():
            span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
            yield f"- {name}: {span}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def with_section(page: str, name: str, text: str) -> str:
    """Return the page with a program's section in place of its old one, else at the end."""
    old = re.compile(rf"<!-- {name} -->.*?<!-- end of {name} -->", re.DOTALL)
    kept = HEAD + page[page.index("\n<!-- ") :] if "\n<!-- " in page else HEAD
    if old.search(kept):
        return old.sub(lambda _: text, kept)
    return f"{kept.rstrip()}\n\n{text}\n"


def published_settings(program: Path) -> Settings:
    """Return the settings beside a program of MaxText."""
    about = json.loads(program.with_name(f"{program.name.partition('.')[0]}.meta.json").read_text())
    flags = [(name, _written(value)) for name, value in about["nvidia_flags"].items()]
    return Settings(
        xla=tuple(pair for pair in flags if not pair[1].startswith("<")),  # without a value
        env=(("XLA_PYTHON_CLIENT_MEM_FRACTION", str(about["mem_fraction_published"])),),
    )


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def told(text: str) -> None:
    """Write a line to the error output."""
    sys.stderr.write(f"{text}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Write a section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("program", choices=SUBJECTS)
    parser.add_argument("--programs", type=Path, help="directory of MaxText's programs")
    parser.add_argument("--from", dest="oldest", default="0.8.0")
    parser.add_argument("--to", default="newest")
    asked = parser.parse_args(words)
    subject = SUBJECTS[asked.program]
    source, options = str(ROOT / subject.source), UpgradeOptions()
    if subject.source.endswith(".mlir.gz"):
        if asked.programs is None:
            parser.error("--programs is missing")
        place = asked.programs / subject.source
        source = str(place)
        options = UpgradeOptions(settings=published_settings(place))
    start = time.monotonic()
    try:
        steps = upgrade(
            source,
            target=subject.target,
            before=asked.oldest,
            after=asked.to,
            options=replace(options, tries=False, bisect=True, every=True),
            say=lambda text: told(f"{time.monotonic() - start:6.0f} s  {text}"),
        ).steps
    except CounterpointError as error:
        told(str(error))
        return 3
    text = section(asked.program, subject, steps, f"{datetime.now(UTC):%Y-%m-%d}")
    page = asked.page.read_text(encoding="utf-8") if asked.page.exists() else ""
    asked.page.write_text(with_section(page, asked.program, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
