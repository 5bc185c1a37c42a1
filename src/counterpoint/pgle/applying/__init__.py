"""Applies a profile: compiles with and without it, and compares the schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.pgle.applying.apply import AppliedProfile as AppliedProfile
    from counterpoint.pgle.applying.apply import apply_on_tpus as apply_on_tpus
    from counterpoint.pgle.applying.apply import apply_profile as apply_profile
    from counterpoint.pgle.applying.apply import compare_compiles as compare_compiles
    from counterpoint.pgle.applying.libtpu import INIT_ARGS as INIT_ARGS
    from counterpoint.pgle.applying.libtpu import profile_argument as profile_argument
    from counterpoint.pgle.applying.movement import CollectiveMove as CollectiveMove
    from counterpoint.pgle.applying.movement import Movement as Movement
    from counterpoint.pgle.applying.movement import movement as movement
    from counterpoint.pgle.applying.subject import LocatedProgram as LocatedProgram
    from counterpoint.pgle.applying.subject import heaviest as heaviest
    from counterpoint.pgle.applying.subject import is_lowered as is_lowered
    from counterpoint.pgle.applying.subject import locate_program as locate_program

__getattr__ = lazy(__name__)
