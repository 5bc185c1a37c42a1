"""Settings: flags and environment of a run, where they come from, and how XLA treats them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.settings import LISTS as LISTS
    from counterpoint.flags.settings import Changed as Changed
    from counterpoint.flags.settings import Channel as Channel
    from counterpoint.flags.settings import Layout as Layout
    from counterpoint.flags.settings import Settings as Settings
    from counterpoint.flags.settings import combine as combine
    from counterpoint.flags.settings import difference as difference
    from counterpoint.flags.settings import environment as environment
    from counterpoint.flags.settings import fault as fault
    from counterpoint.flags.settings import inherited_settings as inherited_settings
    from counterpoint.flags.settings import is_setting as is_setting
    from counterpoint.flags.settings import sound as sound

__getattr__ = lazy(
    __name__,
    {
        "Changed": "counterpoint.flags.settings",
        "Channel": "counterpoint.flags.settings",
        "LISTS": "counterpoint.flags.settings",
        "Layout": "counterpoint.flags.settings",
        "Settings": "counterpoint.flags.settings",
        "combine": "counterpoint.flags.settings",
        "difference": "counterpoint.flags.settings",
        "environment": "counterpoint.flags.settings",
        "fault": "counterpoint.flags.settings",
        "inherited_settings": "counterpoint.flags.settings",
        "is_setting": "counterpoint.flags.settings",
        "sound": "counterpoint.flags.settings",
    },
)
