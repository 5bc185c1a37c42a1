"""Refresh: a jaxlib's own flags, read from its library and obtained from its parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.refresh.descriptor import PluginComparison as PluginComparison
    from counterpoint.flags.refresh.descriptor import compare_plugin as compare_plugin
    from counterpoint.flags.refresh.installed import JaxlibFlags as JaxlibFlags
    from counterpoint.flags.refresh.installed import add_to_table as add_to_table
    from counterpoint.flags.refresh.installed import check_writable as check_writable
    from counterpoint.flags.refresh.installed import read_jaxlib_flags as read_jaxlib_flags
    from counterpoint.flags.refresh.installed import save_overlay as save_overlay

__getattr__ = lazy(__name__)
