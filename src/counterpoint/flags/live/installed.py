"""The release to speak about: the one asked for, the one installed here, else the newest known.

What is installed is what its package says; nothing of it is imported.
"""

from __future__ import annotations

from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue.lookup import meant, release, releases
from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.version import number


def installed_version() -> str | None:
    """The version of the jaxlib beside Counterpoint; None where there is none."""
    from importlib import metadata

    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return None


def chosen_release(asked: str | None = None) -> Release:
    """A release that is known, by its version; None: as the one installed here, or the newest.

    The installed one may be unknown: then it is the nearest older one, and `exact` is False.
    """
    if asked is None:
        return release(installed_version())
    found = meant(asked)
    if found is None:
        raise UsageError(
            f"jaxlib {asked} is not known here",
            why=f"nearest known: {', '.join(_around(asked))}; `counterpoint flags refresh` learns"
            " others from where they are installed",
            next=f"--jaxlib {_around(asked)[0]}",
        )
    return release(found)


def _around(asked: str) -> tuple[str, ...]:
    """The known releases before and after it."""
    known = releases()
    after = sum(1 for one in known if number(one) <= number(asked))
    return known[max(0, after - 2) : after + 1]
