"""Reports of `flags list`, `show`, `diff` and `refresh`, as Documents and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.report.catalogue.catalogue_document import diff_document as diff_document
    from counterpoint.report.catalogue.catalogue_document import list_document as list_document
    from counterpoint.report.catalogue.catalogue_document import plugin_document as plugin_document
    from counterpoint.report.catalogue.catalogue_document import (
        refresh_document as refresh_document,
    )
    from counterpoint.report.catalogue.flags_json import diff_json as diff_json
    from counterpoint.report.catalogue.flags_json import list_json as list_json
    from counterpoint.report.catalogue.flags_json import plugin_json as plugin_json
    from counterpoint.report.catalogue.flags_json import refresh_json as refresh_json
    from counterpoint.report.catalogue.flags_json import show_json as show_json
    from counterpoint.report.catalogue.show_document import all_changes as all_changes
    from counterpoint.report.catalogue.show_document import show_document as show_document

__getattr__ = lazy(__name__)
