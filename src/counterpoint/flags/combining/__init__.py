"""Combine thresholds: which collectives XLA merges, and the thresholds at which that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.combining.combiner import DEFAULT as DEFAULT
    from counterpoint.flags.combining.combiner import KINDS as KINDS
    from counterpoint.flags.combining.combiner import MOST_IN_ONE as MOST_IN_ONE
    from counterpoint.flags.combining.combiner import Merging as Merging
    from counterpoint.flags.combining.combiner import Place as Place
    from counterpoint.flags.combining.combiner import places as places
    from counterpoint.flags.combining.threshold import Combining as Combining
    from counterpoint.flags.combining.threshold import LayerRule as LayerRule
    from counterpoint.flags.combining.threshold import Site as Site
    from counterpoint.flags.combining.threshold import Step as Step
    from counterpoint.flags.combining.threshold import Thresholds as Thresholds
    from counterpoint.flags.combining.threshold import flag_of as flag_of
    from counterpoint.flags.combining.threshold import layer_rule as layer_rule
    from counterpoint.flags.combining.threshold import thresholds as thresholds

__getattr__ = lazy(
    __name__,
    {
        "Combining": "counterpoint.flags.combining.threshold",
        "DEFAULT": "counterpoint.flags.combining.combiner",
        "KINDS": "counterpoint.flags.combining.combiner",
        "LayerRule": "counterpoint.flags.combining.threshold",
        "MOST_IN_ONE": "counterpoint.flags.combining.combiner",
        "Merging": "counterpoint.flags.combining.combiner",
        "Place": "counterpoint.flags.combining.combiner",
        "Site": "counterpoint.flags.combining.threshold",
        "Step": "counterpoint.flags.combining.threshold",
        "Thresholds": "counterpoint.flags.combining.threshold",
        "flag_of": "counterpoint.flags.combining.threshold",
        "layer_rule": "counterpoint.flags.combining.threshold",
        "places": "counterpoint.flags.combining.combiner",
        "thresholds": "counterpoint.flags.combining.threshold",
    },
)
