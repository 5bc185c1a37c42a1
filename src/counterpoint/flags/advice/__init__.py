"""Advice on settings: recipes, recommendations, and XLA's combine thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.advice.recipe import CHIP_GENERATIONS as CHIP_GENERATIONS
    from counterpoint.flags.advice.recipe import NEEDED as NEEDED
    from counterpoint.flags.advice.recipe import Condition as Condition
    from counterpoint.flags.advice.recipe import Recipe as Recipe
    from counterpoint.flags.advice.recipe import recipes as recipes
    from counterpoint.flags.advice.recommendation import ProgramFacts as ProgramFacts
    from counterpoint.flags.advice.recommendation import Recommendation as Recommendation
    from counterpoint.flags.advice.recommendation import (
        RecommendationRequest as RecommendationRequest,
    )
    from counterpoint.flags.advice.recommendation import RecommendedLine as RecommendedLine
    from counterpoint.flags.advice.recommendation import program_facts as program_facts
    from counterpoint.flags.advice.recommendation import recommend as recommend

__getattr__ = lazy(
    __name__,
    {
        "RecommendedLine": "counterpoint.flags.advice.recommendation",
        "Condition": "counterpoint.flags.advice.recipe",
        "CHIP_GENERATIONS": "counterpoint.flags.advice.recipe",
        "NEEDED": "counterpoint.flags.advice.recipe",
        "ProgramFacts": "counterpoint.flags.advice.recommendation",
        "Recipe": "counterpoint.flags.advice.recipe",
        "Recommendation": "counterpoint.flags.advice.recommendation",
        "RecommendationRequest": "counterpoint.flags.advice.recommendation",
        "program_facts": "counterpoint.flags.advice.recommendation",
        "recipes": "counterpoint.flags.advice.recipe",
        "recommend": "counterpoint.flags.advice.recommendation",
    },
)
