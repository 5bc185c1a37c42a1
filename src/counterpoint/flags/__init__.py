"""Settings: flags and environment of a run, where they come from, and how XLA treats them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.settings import LIST_TYPES as LIST_TYPES
    from counterpoint.flags.settings import Channel as Channel
    from counterpoint.flags.settings import Layout as Layout
    from counterpoint.flags.settings import SettingDifference as SettingDifference
    from counterpoint.flags.settings import Settings as Settings
    from counterpoint.flags.settings import combine as combine
    from counterpoint.flags.settings import difference as difference
    from counterpoint.flags.settings import environment as environment
    from counterpoint.flags.settings import inherited_settings as inherited_settings
    from counterpoint.flags.settings import is_combined as is_combined
    from counterpoint.flags.settings import is_setting as is_setting
    from counterpoint.flags.settings import valid_pairs as valid_pairs
    from counterpoint.flags.settings import why_invalid as why_invalid

__getattr__ = lazy(__name__)
