"""Settings rendered for a shell, Slurm, Kubernetes, Python or an env file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.forms.rendering import SettingsForm as SettingsForm
    from counterpoint.flags.forms.rendering import one_line as one_line
    from counterpoint.flags.forms.rendering import quoted as quoted
    from counterpoint.flags.forms.rendering import render as render

__getattr__ = lazy(
    __name__,
    {
        "SettingsForm": "counterpoint.flags.forms.rendering",
        "one_line": "counterpoint.flags.forms.rendering",
        "quoted": "counterpoint.flags.forms.rendering",
        "render": "counterpoint.flags.forms.rendering",
    },
)
