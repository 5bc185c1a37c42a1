"""Lines of flags and variables as users write them, and the names that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.lines.known import OWN_PREFIX as OWN_PREFIX
    from counterpoint.flags.lines.known import is_flag as is_flag
    from counterpoint.flags.lines.known import is_variable as is_variable
    from counterpoint.flags.lines.known import refuse_bare_flag as refuse_bare_flag
    from counterpoint.flags.lines.line import SettingsLine as SettingsLine
    from counterpoint.flags.lines.line import parse_settings as parse_settings
    from counterpoint.flags.lines.line import read_line as read_line
    from counterpoint.flags.lines.line import write_line as write_line
    from counterpoint.flags.lines.source import load_settings as load_settings

__getattr__ = lazy(__name__)
