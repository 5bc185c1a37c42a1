"""Applies a profile: compiles with and without it, and compares the schedules."""

from counterpoint.pgle.applying.apply import PATH as PATH
from counterpoint.pgle.applying.apply import Applied as Applied
from counterpoint.pgle.applying.apply import apply_profile as apply_profile
from counterpoint.pgle.applying.apply import weigh as weigh
from counterpoint.pgle.applying.evidence import read_evidence as read_evidence
from counterpoint.pgle.applying.movement import Move as Move
from counterpoint.pgle.applying.movement import Movement as Movement
from counterpoint.pgle.applying.movement import movement as movement
from counterpoint.pgle.applying.movement import shown as shown
from counterpoint.pgle.applying.subject import Subject as Subject
from counterpoint.pgle.applying.subject import find_subject as find_subject
from counterpoint.pgle.applying.subject import is_lowered as is_lowered
