"""The file that holds a study: append-only, with each record on disk before the next step."""

from counterpoint.tune.journal.journal import read_journal as read_journal
from counterpoint.tune.journal.lines import line_of as line_of
from counterpoint.tune.journal.records import Ablated as Ablated
