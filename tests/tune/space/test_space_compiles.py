"""Every choice of every dimension, given to the real compiler: none is refused."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import chain

import pytest

from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.forms import compiler_options
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import ArmChange
from tune_spaces import space_of
from xla_compiler import Compiler, Option, why_none

OptionItems = tuple[tuple[str, Option], ...]
TARGETS = ("8x1xH100", "2x4xA100-80GB", "8xB200")
ENDS = {"0.12.": {"collective matmul", "all-to-all matmul"}}
"""XLA's own verifier refuses what XLA makes of this program then; others get by."""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Generator[Compiler]:
    why = why_none()
    if why:
        pytest.skip(why)
    found = Compiler(tmp_path_factory.mktemp("space"))
    yield found
    found.close()


@pytest.mark.system
def test_the_compiler_takes_every_choice(compiler: Compiler) -> None:
    """In a program with a loop and the usual collectives.

    A compile takes as many choices as have no option in common; where XLA refuses them together,
    each of them is compiled alone.
    """
    here = release(pytest.importorskip("jaxlib.version").__version__)
    ends = next((it for start, it in ENDS.items() if here.version.startswith(start)), set[str]())
    choices = {
        tuple(sorted(options.items())): str(it)
        for target in TARGETS
        for dimension in space_of(target=target, version=here.version).dimensions
        for it in dimension.choices
        if (options := taken(it, here))
    }
    assert len(choices) > 35
    alone = [it for it, name in choices.items() if name in ends]
    for together in groups(it for it in choices if it not in alone):
        if compiler.compile("step", **dict(chain(*together))).error is not None:
            alone += together
    answers = {choices[it]: compiler.compile("step", **dict(it)).error for it in alone}
    refused = {name: error for name, error in answers.items() if error is not None}
    assert set(refused) == ends, refused


def taken(change: ArmChange, here: Release) -> dict[str, Option]:
    """What the choice gives to the compiler, which leaves nothing of it out."""
    found = compiler_options(Settings(change.settings.xla), here)
    assert not found.left_out, change
    return {name: it for name, it in found.taken.items() if not isinstance(it, float)}


def groups(choices: Iterable[OptionItems]) -> list[list[OptionItems]]:
    """Put each choice into the first group that sets none of its options."""
    made: list[list[OptionItems]] = []
    for options in choices:
        names = {name for name, _ in options}
        free = (it for it in made if names.isdisjoint(name for name, _ in chain(*it)))
        group = next(free, None)
        if group is None:
            made.append(group := [])
        group.append(options)
    return made
