"""Answers of the installed jaxlib, about itself and flags, from a separate process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.live.option_probe import probe_compiler as probe_compiler
    from counterpoint.flags.live.probe import JaxlibInterpreter as JaxlibInterpreter
    from counterpoint.flags.live.probe import ProbeResult as ProbeResult
    from counterpoint.flags.live.probe import RejectedFlag as RejectedFlag
    from counterpoint.flags.live.probe import chosen_release as chosen_release
    from counterpoint.flags.live.probe import find_interpreter as find_interpreter
    from counterpoint.flags.live.probe import installed_version as installed_version
    from counterpoint.flags.live.probe import probe_flags as probe_flags
    from counterpoint.flags.live.probe import rejection_error as rejection_error

__getattr__ = lazy(
    __name__,
    {
        "ProbeResult": "counterpoint.flags.live.probe",
        "JaxlibInterpreter": "counterpoint.flags.live.probe",
        "RejectedFlag": "counterpoint.flags.live.probe",
        "probe_flags": "counterpoint.flags.live.probe",
        "probe_compiler": "counterpoint.flags.live.option_probe",
        "chosen_release": "counterpoint.flags.live.probe",
        "find_interpreter": "counterpoint.flags.live.probe",
        "installed_version": "counterpoint.flags.live.probe",
        "rejection_error": "counterpoint.flags.live.probe",
    },
)
