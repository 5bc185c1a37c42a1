"""What does today what removed flags did: by name, from all that is written by hand."""

from __future__ import annotations

from counterpoint.flags.catalogue import Release
from counterpoint.flags.gone import gone


def replacements(before: Release, after: Release) -> dict[str, tuple[str, ...]]:
    """For each name that the later release has not: what is to be used instead."""
    from counterpoint.flags.catalogue.about import about

    found: dict[str, tuple[str, ...]] = {}
    for name in (before.flags.keys() - after.flags.keys()) | (before.jax.keys() - after.jax.keys()):
        removed = gone(name) if name in before.flags else None
        known = about(name)
        use = (removed.use if removed else ()) or (known.use if known else ())
        if use:
            found[name] = use
    return found
