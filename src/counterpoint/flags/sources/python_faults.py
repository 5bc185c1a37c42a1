"""Faults of a Python program's assignments: too late to be read, or throwing away what was set."""

from __future__ import annotations

from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.jax_use import JaxUse
from counterpoint.flags.sources.python_program import Program
from counterpoint.flags.sources.traced import Traced
from counterpoint.flags.sources.variables import FLAGS
from counterpoint.flags.written import Place, Slip, SlipKind


def too_late(program: Program, jax: JaxUse, name: str, value: Traced, line: int) -> bool:
    """Whether the variable has been read before: then it is a slip, and set nowhere."""
    used, why = jax.used, ""
    if used is not None and name in FLAGS:
        why = f"line {used} (`{jax.used_as}`) has made XLA read it already"
    elif jax.imported is not None and name.startswith(("JAX_", "JAXLIB_")):
        used, why = jax.imported, "JAX has read it when it was imported"
        why += f", in line {used}"
    if not why:
        return False
    option = name.lower()
    program.slips.append(
        Slip(
            kind=SlipKind.TOO_LATE,
            channel=FLAGS.get(name, Channel.ENVIRONMENT),
            text=f"{name}={value.shown}",
            why=why,
            place=Place(program.where, line),
            mend=f'jax.config.update("{option}", ...)' if name not in FLAGS else None,
        )
    )
    return True


def may_overwrite(program: Program, name: str, before: Traced, value: Traced, line: int) -> None:
    """Flags that were set before and are not any more are a slip."""
    variable = Variable(program.where, FLAGS[name])
    if not before.text.lstrip().startswith("-"):
        return
    after = {it.name for it in read_flags(value, variable).given}
    lost = [it.name for it in read_flags(before, variable).given if it.name not in after]
    if not lost:
        return
    start = " ".join(value.shown.split()[:1])
    flags = ", ".join(f"--{flag}" for flag in lost[:3]) + (", ..." if len(lost) > 3 else "")
    program.slips.append(
        Slip(
            kind=SlipKind.OVERWRITTEN,
            channel=FLAGS[name],
            text=f"{name}={start}",
            why=f"it throws away what line {program.lines[name]} has set: {flags}",
            place=Place(program.where, line),
            mend=f'os.environ["{name}"] += " {start} ..."',
        )
    )
