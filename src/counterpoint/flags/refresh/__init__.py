"""Refresh: a jaxlib's own flags, read from its library and obtained from its parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.refresh.learnt import Learnt as Learnt
    from counterpoint.flags.refresh.learnt import check_place as check_place
    from counterpoint.flags.refresh.learnt import keep as keep
    from counterpoint.flags.refresh.learnt import lay_into as lay_into
    from counterpoint.flags.refresh.learnt import learn as learn
    from counterpoint.flags.refresh.plugin import Plugin as Plugin
    from counterpoint.flags.refresh.plugin import compare_plugin as compare_plugin

__getattr__ = lazy(
    __name__,
    {
        "Learnt": "counterpoint.flags.refresh.learnt",
        "Plugin": "counterpoint.flags.refresh.plugin",
        "check_place": "counterpoint.flags.refresh.learnt",
        "compare_plugin": "counterpoint.flags.refresh.plugin",
        "keep": "counterpoint.flags.refresh.learnt",
        "lay_into": "counterpoint.flags.refresh.learnt",
        "learn": "counterpoint.flags.refresh.learnt",
    },
)
