"""Known names similar to a misspelled one."""

from __future__ import annotations

from counterpoint.flags.catalogue.flag import Release


def similar(name: str, release: Release, count: int = 2) -> tuple[str, ...]:
    """Return names of the release that XLA_FLAGS accepts, most similar first."""
    tried = name.lstrip("-").lower().replace("-", "_")
    taken = [flag.name for flag in release.flags.values() if flag.xla_flags]
    if tried in taken:
        return (tried,)
    import difflib

    return tuple(difflib.get_close_matches(tried, taken, n=count, cutoff=0.85))
