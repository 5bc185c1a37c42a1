"""Flags that a Python source holds and hands to nothing: constants of a library, and dicts."""

from __future__ import annotations

from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.python_flags import for_their_chip
from counterpoint.flags.sources.python_program import Program
from counterpoint.flags.sources.python_values import Evaluator, Items, Value
from counterpoint.flags.sources.traced import Budget, Traced
from counterpoint.flags.sources.variables import FLAGS
from counterpoint.flags.written import Given


def in_dicts(program: Program) -> list[Given]:
    """Flags in dicts that nothing has handed to a compile."""
    found = for_their_chip(one for one in program.dicts if one not in program.given)
    if found:
        program.note(f"dicts of flags are taken for {found[0].channel}")
    return found


def library(program: Program, evaluator: Evaluator) -> list[Given]:
    """Constants of a module that hold flags, where nothing hands them to a program."""
    values = [value for name, value in evaluator.names.items() if name not in FLAGS]
    every = (text for value in values for text in _texts(value, evaluator.budget))
    texts = [it for it in every if it.text.lstrip().startswith(("--xla", "--megascale"))]
    if not texts:
        return []
    program.note("nothing here sets XLA_FLAGS: these are the flags in its constants")
    found = [read_flags(text, Variable(program.where)) for text in texts]  # a fault ends one only
    program.slips += [slip for one in found for slip in one.slips]
    given = [it for one in found for it in one.given]
    once = {(it.name, it.value): it for it in reversed(given)}
    return for_their_chip(reversed(once.values()))


def _texts(value: Value, budget: Budget) -> list[Traced]:
    budget.spend_on(1, None)
    if isinstance(value, Traced):
        return [value]
    inner = value.items if isinstance(value, Items) else list(value.entries.values())
    return [text for it in inner for text in _texts(it, budget)]
