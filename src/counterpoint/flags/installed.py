"""The jaxlib beside Counterpoint, by what its package says: nothing of it is imported."""

from __future__ import annotations


def installed_version() -> str | None:
    """Its version; None where there is none."""
    from importlib import metadata

    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return None
