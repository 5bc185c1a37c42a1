"""Rules as documents: the docstring of a rule's module."""

from counterpoint.core.rules.rulebook import DocumentedRule as DocumentedRule
from counterpoint.core.rules.rulebook import as_text as as_text
from counterpoint.core.rules.rulebook import find_rule as find_rule
from counterpoint.core.rules.rulebook import read_page as read_page
from counterpoint.core.rules.rulebook import similar_codes as similar_codes
