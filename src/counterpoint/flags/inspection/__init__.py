"""Settings inspected: the values that the compiler really used, and descriptions of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.inspection.effective import Difference as Difference
    from counterpoint.flags.inspection.effective import EffectiveFlag as EffectiveFlag
    from counterpoint.flags.inspection.effective import FlagOutcome as FlagOutcome
    from counterpoint.flags.inspection.effective import compare as compare
    from counterpoint.flags.inspection.effective import differences as differences
    from counterpoint.flags.inspection.showing import ChannelVerdict as ChannelVerdict
    from counterpoint.flags.inspection.showing import SettingDescription as SettingDescription
    from counterpoint.flags.inspection.showing import show as show

__getattr__ = lazy(
    __name__,
    {
        "Difference": "counterpoint.flags.inspection.effective",
        "FlagOutcome": "counterpoint.flags.inspection.effective",
        "SettingDescription": "counterpoint.flags.inspection.showing",
        "EffectiveFlag": "counterpoint.flags.inspection.effective",
        "ChannelVerdict": "counterpoint.flags.inspection.showing",
        "compare": "counterpoint.flags.inspection.effective",
        "differences": "counterpoint.flags.inspection.effective",
        "show": "counterpoint.flags.inspection.showing",
    },
)
