"""What is doubtful for the same reason, said once: a script may have one `if` around everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_NAMED: Final = 3
_TWO: Final = 2


@dataclass(slots=True)
class Doubts:
    """Variables with their lines, by the block they stand in and what is to be said of them."""

    found: dict[tuple[int, str], list[tuple[int, str]]] = field(
        default_factory=dict[tuple[int, str], list[tuple[int, str]]]
    )

    def add(self, block: int, why: str, line: int, name: str) -> None:
        """One variable, in one block."""
        names = self.found.setdefault((block, why), [])
        if (line, name) not in names:
            names.append((line, name))

    def notes(self) -> Iterator[str]:
        """One note for each block and reason."""
        for (_, why), places in self.found.items():
            lines = sorted({line for line, _ in places})
            names = list(dict.fromkeys(name for _, name in places))
            between = " and " if len(lines) == _TWO else " to "
            ends = dict.fromkeys((str(lines[0]), str(lines[-1])))
            start = f"line{'s' * (len(lines) > 1)} {between.join(ends)}"
            if len(names) == 1:
                yield f"{start}: {names[0]} is {why}"
                continue
            rest = len(names) - _NAMED
            listed = ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            yield f"{start}: {listed} are {why}"
