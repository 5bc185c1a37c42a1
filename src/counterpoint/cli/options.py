"""Options that several commands have, each declared once: with its type, default and description.

A command takes a group as one argument; cyclopts makes options of its fields. A group of a lower
room, such as the prices of a prediction, is a plain dataclass, and becomes options by the same
docstring; `flat` names them without the group's name. A single option is a type with its help.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from counterpoint.cli.output import check_digest, check_output, check_page
from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.timeline.step_range import step_range
from counterpoint.workflow.forecast.options import Where
from counterpoint.workflow.variant import BaseSettings

if TYPE_CHECKING:
    from counterpoint.fleet.tasks import ExtractExecutor
    from counterpoint.view.page import PageContent

flat = Parameter(name="*")
flat(Where)
Parameter(name="*", allow_leading_hyphen=True)(BaseSettings)  # --set --xla_a=1

OutputPath = Annotated[Path | None, Parameter(name=["--out", "-o"])]
Json = Annotated[bool, Parameter(help="Print everything as JSON.")]
Force = Annotated[bool, Parameter(help="Overwrite existing output.")]
Top = Annotated[int, Parameter(help="Rows in each table.")]
CompileTimeout = Annotated[
    float, Parameter(help="Time limit of one compile or lowering, in seconds.")
]
Report = Annotated[
    Path | None, Parameter(name="--html", help="Write the report as one page to this file (.html).")
]
Machine = Annotated[
    str | None,
    Parameter(
        help="The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G; determines the link rates."
    ),
]
Steps = Annotated[
    str | None,
    Parameter(
        help="Only these steps: A:B stops before B, as in Python; A: and :B also work.",
    ),
]
Last = Annotated[int | None, Parameter(help="Only the last N steps that were recorded whole.")]
Memory = Annotated[
    float | None,
    Parameter(
        help="Memory limit for reading, in GB; by default half of the machine's memory. What does"
        " not fit of a profile in pieces (.xplane.riegeli) is left out."
    ),
]
Jaxlib = Annotated[
    str | None,
    Parameter(help="The release; by default the installed one, or else the newest known."),
]
Words = Annotated[str, Parameter(name="COMMAND...", show=False, negative=())]
"""The words of a command after `--`."""

ENDINGS = (".json", ".txt", ".md")


@Parameter(name="*")
@dataclass(frozen=True)
class Selection:
    """What of a profile is looked at.

    Args:
        step: Only this step.
        device: Only these devices: numbers separated by commas, e.g. 0,1.
    """

    step: int | None = None
    steps: Steps = None
    last: Last = None
    device: str | None = None

    def check(self) -> None:
        """Refuse what contradicts itself, before anything is read."""
        step_range(self.steps, self.last, self.step)
        _ = self.devices

    @property
    def devices(self) -> tuple[int, ...] | None:
        """The numbers of the devices; None: all."""
        if self.device is None:
            return None
        numbers = self.device.split(",")
        if not all(number.strip().isdecimal() for number in numbers):
            raise UsageError(
                f"--device takes numbers separated by commas, not {self.device!r}",
                next="use --device 0,1",
            )
        return tuple(sorted({int(number) for number in numbers}))


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How profiles are read.

    Args:
        jobs: Number of hosts to read in parallel; by default one per core for large profiles.
    """

    jobs: int | None = None
    memory: Memory = None


@Parameter(name="*")
@dataclass(frozen=True)
class Page:
    """The page of a result.

    Args:
        html: Write one page to this file (.html): the report, and a timeline to zoom into.
        full: Put all steps into the page in full, however large; by default the typical one.
    """

    html: Path | None = None
    full: bool = False

    def check(self, *, force: bool) -> None:
        """Refuse a page that can't or must not be written, before any work is done."""
        check_page(self.html, full=self.full, force=force)

    def write(self, content: PageContent) -> None:
        """Write the page, which must have been asked for."""
        from counterpoint.cli.pages import write_page

        if self.html is not None:
            write_page(content, self.html, full=self.full)


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Where the result goes.

    Args:
        out: Write to this file: .json as JSON, .txt or .md as text.
    """

    json: Json = False
    out: OutputPath = None
    page: Page = Page()
    force: Force = False

    def check(self) -> None:
        """Refuse a file that can't or must not be written, before any work is done."""
        if self.out is not None:
            check_output(self.out, force=self.force, endings=ENDINGS)
            if self.json and self.out.suffix != ".json":
                raise UsageError(
                    f"--json conflicts with the text file {self.out}",
                    next=f"use -o {self.out.with_suffix('.json')}",
                )
        self.page.check(force=self.force)

    @property
    def is_page_alone(self) -> bool:
        """Whether the page is all that is wanted."""
        return self.page.html is not None and self.out is None and not self.json


@Parameter(name="*")
@dataclass(frozen=True)
class Digest:
    """The short form of a result.

    Args:
        as_: Print a digest: the most important lines, for a program that reads text.
        budget: Characters of the digest; by default 1,500.
    """

    as_: Literal["digest"] | None = None
    budget: int | None = None

    def size(self, *, json: bool, out: Path | None = None) -> int | None:
        """Return the characters of the digest; None if none is wanted."""
        return check_digest(self.as_, self.budget, json=json, out=out)


@Parameter(name="*")
@dataclass(frozen=True)
class FleetOptions:
    """How the profiles of many hosts are read.

    Args:
        executor: For many hosts: reduce each profile in a process of its own, on this machine or on
            the nodes of a Ray cluster, and use what is left of them together.
        ray_address: The Ray cluster; by default RAY_ADDRESS, or the one that is around.
        strict: With --executor: a profile that can't be read is an error, and not left out.
    """

    executor: Literal["local", "ray"] | None = None
    ray_address: str | None = None
    strict: bool = False

    def chosen(self, jobs: int | None = None) -> ExtractExecutor | None:
        """Return the executor, or None without one."""
        if self.executor is None:
            need_executor(asdict(self))
            return None
        if self.executor == "ray":
            from counterpoint.fleet.cluster import RayExecutor

            return RayExecutor(self.ray_address)
        if self.ray_address is not None:
            raise UsageError("--ray-address is for --executor ray", next="use --executor ray")
        from counterpoint.fleet.local import LocalExecutor

        return LocalExecutor(jobs)


def need_executor(given: dict[str, object]) -> None:
    """Refuse options that tell how extracts are made, where none are."""
    for name, value in given.items():
        if value:
            raise UsageError(f"{option_of(name)} needs --executor", next="use --executor local")
