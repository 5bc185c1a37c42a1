"""`counterpoint flags list`: the flags of one release."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from counterpoint.flags.catalogue.about import all_about
from counterpoint.flags.catalogue.listing import Wanted, listing, require_earlier
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.channel import Channel
from counterpoint.flags.live.installed import chosen_release
from counterpoint.flags.version import number
from counterpoint.report.flags_list_document import list_document, list_json
from counterpoint.report.terminal import print_document


def list_flags(
    *,
    jaxlib: str | None = None,
    changed_since: str | None = None,
    grep: str = "",
    channel: Literal["XLA_FLAGS", "compiler_options", "environment"] | None = None,
    all: Annotated[bool, Parameter(show_default=False)] = False,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """List XLA's flags with their types and defaults.

    Args:
        jaxlib: The release; else the one installed here, or the newest that is known.
        changed_since: Only what is new, gone or otherwise changed after this release.
        grep: Only those with this text in their name, or in what they do.
        channel: Only those that can be given this way; `environment`: JAX's own options.
        all: Also what a GPU does not read, what does nothing, what is deprecated, JAX's options,
            and what only earlier releases had.
        json: Print everything as JSON, uncut.
    """
    release = chosen_release(jaxlib)
    since = None if changed_since is None else _beginning(changed_since)
    wanted = Wanted(
        channel=None if channel is None else Channel(channel),
        text=grep,
        changed_since=since,
        everything=all,
    )
    require_earlier(since, release)
    does = {name: about.does for name, about in all_about().items()}
    found = listing(release, wanted, does)
    if json:
        sys.stdout.write(list_json(found, release, wanted, does))
    else:
        print_document(list_document(found, release, wanted, does), sys.stdout)


def _beginning(asked: str) -> str:
    """The release that is meant as a lower bound: 0.9 is the first of its series."""
    newest = chosen_release(asked).version
    wanted = number(asked.strip().removeprefix("v"))
    return next((it for it in releases() if number(it)[: len(wanted)] == wanted), newest)
