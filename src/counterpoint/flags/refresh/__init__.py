"""Refresh: a jaxlib's own flags, read from its library and obtained from its parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.refresh.learnt import JaxlibFlags as JaxlibFlags
    from counterpoint.flags.refresh.learnt import add_to_table as add_to_table
    from counterpoint.flags.refresh.learnt import check_writable as check_writable
    from counterpoint.flags.refresh.learnt import read_jaxlib_flags as read_jaxlib_flags
    from counterpoint.flags.refresh.learnt import save_overlay as save_overlay
    from counterpoint.flags.refresh.plugin import PluginComparison as PluginComparison
    from counterpoint.flags.refresh.plugin import compare_plugin as compare_plugin

__getattr__ = lazy(
    __name__,
    {
        "JaxlibFlags": "counterpoint.flags.refresh.learnt",
        "PluginComparison": "counterpoint.flags.refresh.plugin",
        "check_writable": "counterpoint.flags.refresh.learnt",
        "compare_plugin": "counterpoint.flags.refresh.plugin",
        "save_overlay": "counterpoint.flags.refresh.learnt",
        "add_to_table": "counterpoint.flags.refresh.learnt",
        "read_jaxlib_flags": "counterpoint.flags.refresh.learnt",
    },
)
