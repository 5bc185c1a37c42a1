"""Combine thresholds: which collectives XLA merges, and the thresholds at which that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.combining.combiner import DEFAULT as DEFAULT
    from counterpoint.flags.combining.combiner import KINDS as KINDS
    from counterpoint.flags.combining.combiner import (
        MAX_COLLECTIVES_IN_ONE as MAX_COLLECTIVES_IN_ONE,
    )
    from counterpoint.flags.combining.combiner import CombinerInput as CombinerInput
    from counterpoint.flags.combining.combiner import CombinerState as CombinerState
    from counterpoint.flags.combining.combiner import combiner_inputs as combiner_inputs
    from counterpoint.flags.combining.threshold import KindThresholds as KindThresholds
    from counterpoint.flags.combining.threshold import LayerRule as LayerRule
    from counterpoint.flags.combining.threshold import Site as Site
    from counterpoint.flags.combining.threshold import ThresholdResult as ThresholdResult
    from counterpoint.flags.combining.threshold import Thresholds as Thresholds
    from counterpoint.flags.combining.threshold import flag_of as flag_of
    from counterpoint.flags.combining.threshold import layer_rule as layer_rule
    from counterpoint.flags.combining.threshold import thresholds as thresholds

__getattr__ = lazy(
    __name__,
    {
        "KindThresholds": "counterpoint.flags.combining.threshold",
        "DEFAULT": "counterpoint.flags.combining.combiner",
        "KINDS": "counterpoint.flags.combining.combiner",
        "LayerRule": "counterpoint.flags.combining.threshold",
        "MAX_COLLECTIVES_IN_ONE": "counterpoint.flags.combining.combiner",
        "CombinerState": "counterpoint.flags.combining.combiner",
        "CombinerInput": "counterpoint.flags.combining.combiner",
        "Site": "counterpoint.flags.combining.threshold",
        "ThresholdResult": "counterpoint.flags.combining.threshold",
        "Thresholds": "counterpoint.flags.combining.threshold",
        "flag_of": "counterpoint.flags.combining.threshold",
        "layer_rule": "counterpoint.flags.combining.threshold",
        "combiner_inputs": "counterpoint.flags.combining.combiner",
        "thresholds": "counterpoint.flags.combining.threshold",
    },
)
