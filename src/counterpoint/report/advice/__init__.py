"""Reports of `flags recommend` and `flags thresholds`, as Documents and as JSON."""

from counterpoint.report.advice import recommend_document as recommend_document
from counterpoint.report.advice.thresholds_document import COUNTED as COUNTED
from counterpoint.report.advice.thresholds_document import candidates_of as candidates_of
from counterpoint.report.advice.thresholds_document import flags_of as flags_of
from counterpoint.report.advice.thresholds_document import rule_candidates as rule_candidates
from counterpoint.report.advice.thresholds_document import rule_document as rule_document
from counterpoint.report.advice.thresholds_document import rule_flags as rule_flags
from counterpoint.report.advice.thresholds_document import (
    thresholds_document as thresholds_document,
)
from counterpoint.report.flags.settings_document import left_out as left_out
from counterpoint.report.flags.settings_json import recommendation_json as recommendation_json
from counterpoint.report.flags.settings_json import rule_json as rule_json
from counterpoint.report.flags.settings_json import thresholds_json as thresholds_json
