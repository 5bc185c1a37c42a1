"""Rules as documents: the docstring of a rule's module."""

from counterpoint.core.rules.rulebook import Documented as Documented
from counterpoint.core.rules.rulebook import as_text as as_text
from counterpoint.core.rules.rulebook import find_rule as find_rule
from counterpoint.core.rules.rulebook import near_codes as near_codes
from counterpoint.core.rules.rulebook import read_page as read_page
