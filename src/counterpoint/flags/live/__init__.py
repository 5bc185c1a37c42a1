"""Answers of the installed jaxlib, about itself and flags, from a separate process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.live.option_probe import ask_compiler as ask_compiler
    from counterpoint.flags.live.probe import Answer as Answer
    from counterpoint.flags.live.probe import Interpreter as Interpreter
    from counterpoint.flags.live.probe import Rejected as Rejected
    from counterpoint.flags.live.probe import ask as ask
    from counterpoint.flags.live.probe import chosen_release as chosen_release
    from counterpoint.flags.live.probe import find_interpreter as find_interpreter
    from counterpoint.flags.live.probe import installed_version as installed_version
    from counterpoint.flags.live.probe import rejection as rejection

__getattr__ = lazy(
    __name__,
    {
        "Answer": "counterpoint.flags.live.probe",
        "Interpreter": "counterpoint.flags.live.probe",
        "Rejected": "counterpoint.flags.live.probe",
        "ask": "counterpoint.flags.live.probe",
        "ask_compiler": "counterpoint.flags.live.option_probe",
        "chosen_release": "counterpoint.flags.live.probe",
        "find_interpreter": "counterpoint.flags.live.probe",
        "installed_version": "counterpoint.flags.live.probe",
        "rejection": "counterpoint.flags.live.probe",
    },
)
