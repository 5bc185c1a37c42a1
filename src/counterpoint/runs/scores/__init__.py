"""The score of a run: one step time from its undisturbed steps, and the noise between runs."""

from counterpoint.runs.scores.score import CONFIDENCE as CONFIDENCE
from counterpoint.runs.scores.score import NEGLIGIBLE_CHANGE as NEGLIGIBLE_CHANGE
from counterpoint.runs.scores.score import RUN_TO_RUN_NOISE as RUN_TO_RUN_NOISE
from counterpoint.runs.scores.score import Score as Score
from counterpoint.runs.scores.score import assumed_noise as assumed_noise
from counterpoint.runs.scores.score import disturbances as disturbances
from counterpoint.runs.scores.score import score as score
from counterpoint.runs.scores.score import score_of_steps as score_of_steps
from counterpoint.runs.scores.score import seen_steps as seen_steps
from counterpoint.runs.scores.score import slowest_rank as slowest_rank
from counterpoint.runs.scores.score import student_t as student_t
from counterpoint.runs.scores.score import undisturbed as undisturbed
