"""The pages that show a Timeline and the results of a command, as one file or in a local app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.view.page import LivePage as LivePage
    from counterpoint.view.page import PageContent as PageContent
    from counterpoint.view.page import one_file as one_file

__getattr__ = lazy(
    __name__,
    {
        "LivePage": "counterpoint.view.page",
        "PageContent": "counterpoint.view.page",
        "one_file": "counterpoint.view.page",
    },
)
