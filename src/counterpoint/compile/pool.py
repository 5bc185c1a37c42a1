"""Many compiles at once, in worker processes: each comes back when it is through.

A crash, a lack of memory or a time limit of one is an error of that one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from counterpoint.compile.compiled import Compiled
from counterpoint.compile.task import Task
from counterpoint.core.errors import CounterpointError

Result: TypeAlias = Compiled | CounterpointError
"""A compile, or why there is none: CompileFailed, or an option, program or target at fault."""


def compile_all(
    tasks: Sequence[Task],
    jobs: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[int, Result]]:
    """Each task's number and result, in the order in which they get through.

    `jobs` workers run at once; None: as many as cores and memory allow. `say` hears of progress.
    Whoever stops listening (a break, Ctrl-C) ends all workers.
    """
    raise NotImplementedError
