"""The pages that show a Timeline and the results of a command, as one file or in a local app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.view.app import App as App
    from counterpoint.view.app import ShownPage as ShownPage
    from counterpoint.view.notebook import notebook_html as notebook_html
    from counterpoint.view.page import LivePage as LivePage
    from counterpoint.view.page import PageContent as PageContent
    from counterpoint.view.page import one_file as one_file
    from counterpoint.view.page import predicted_steps as predicted_steps
    from counterpoint.view.page import side_by_side as side_by_side
    from counterpoint.view.page import title_of as title_of
    from counterpoint.view.prepared import PreparedPage as PreparedPage
    from counterpoint.view.prepared import find_page as find_page
    from counterpoint.view.prepared import keep_page as keep_page
    from counterpoint.view.prepared import key_of as key_of
    from counterpoint.view.serving import listen as listen
    from counterpoint.view.serving import serve as serve

__getattr__ = lazy(__name__)
