"""Corrected: settings written down again in the form in which they came.

Of a script it is the assignments alone: they replace the old ones, and the rest stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.lint.assignments import assignments, is_script, stays
from counterpoint.flags.rendering import Form, render
from counterpoint.flags.settings import Settings
from counterpoint.flags.written import Slip, Written, as_slip
from counterpoint.flags.xla_flags import render_xla_flags

_FORMS: Final = {
    "python": Form.PYTHON,
    "yaml": Form.K8S,
    "kubernetes": Form.K8S,
    "env": Form.ENV,
    "environment": Form.ENV,
    "process": Form.ENV,
    "run": Form.ENV,
}


def left_out(written: Written) -> tuple[Slip, ...]:
    """What the text does not hold, since it is no setting, or known only elsewhere."""
    slips = tuple(slip for slip in written.slips if not stays(written, slip))
    return (*slips, *(as_slip(one, why) for one, why in written.refused))


def corrected(written: Written, release: Release) -> str:
    """The text: flags alone stay a line of flags, a script's become a script's lines."""
    settings = written.settings
    if written.form in ("flags", "text") and not settings.env and not settings.options:
        return render_xla_flags(settings.xla) + "\n"
    parts: list[str] = []
    if is_script(written):
        parts.append(assignments(written))
    elif settings.xla or settings.env:
        form = _FORMS.get(written.form, Form.BASH)
        parts.append(render(replace(settings, options=()), form, release))
    if settings.options:
        options = Settings(options=settings.options)
        parts.append(render(options, Form.COMPILER_OPTIONS, release))
    return "".join(parts)
