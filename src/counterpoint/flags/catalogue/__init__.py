"""The catalogue: the flags and options of each release of jaxlib, read from the releases.

`flag` stores releases as changes, `lookup` builds a Release from them, and `flags.history` follows
one name. `libtpu` has the flags of libtpu's releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.catalogue.about import SettingReader as SettingReader
    from counterpoint.flags.catalogue.about import all_documentation as all_documentation
    from counterpoint.flags.catalogue.flag import Flag as Flag
    from counterpoint.flags.catalogue.flag import Release as Release
    from counterpoint.flags.catalogue.libtpu import is_libtpu_name as is_libtpu_name
    from counterpoint.flags.catalogue.libtpu import libtpu_flag as libtpu_flag
    from counterpoint.flags.catalogue.lookup import path_of as path_of
    from counterpoint.flags.catalogue.lookup import release as release
    from counterpoint.flags.catalogue.lookup import releases as releases
    from counterpoint.flags.catalogue.variable import variables as variables

__getattr__ = lazy(__name__)
