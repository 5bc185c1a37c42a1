"""A PGLE profile for an arm, of the run that was profiled under its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags import Settings
from counterpoint.flags.version import LHS, PROFILE
from counterpoint.tune.arm import Arm

PROFILES: Final = "profiles"


def profiled_settings(arm: Arm, run: Path, study: Path) -> Settings:
    """The arm's settings with a profile made of that Run. An InputError says why there is none."""
    from counterpoint.pgle.address import addressed
    from counterpoint.pgle.make import make_profile
    from counterpoint.pgle.writing import write_profile
    from counterpoint.runs.reader import read_run
    from counterpoint.timeline.read import read

    told = read_run(run)
    if not told.profiles:
        raise InputError(f"{run}: the run left no profile", why=told.why_no_profile)
    timeline = read(*map(str, told.profiles))
    versions = {name: told.versions[name] for name in ("jaxlib", "jax") if name in told.versions}
    made = make_profile(timeline, about=versions)
    place = study / PROFILES
    place.mkdir(exist_ok=True)
    written = write_profile(made.profile, place / f"{run.name}.pbtxt", overwrite=True)
    path = written.rename(addressed(written)).resolve()
    lhs = () if LHS in arm.settings.flags else ((LHS, "true"),)
    return arm.settings.merged(Settings((*lhs, (PROFILE, str(path)))))
