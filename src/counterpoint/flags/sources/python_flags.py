"""Which dicts of a Python program hold flags: their keys are names of such, without dashes.

options = dict(xla_gpu_enable_triton_gemm="false", xla_gpu_autotune_level=0)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from counterpoint.flags.names import LIBTPU
from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.python_values import Entries, Value
from counterpoint.flags.sources.traced import Traced
from counterpoint.flags.written import Given

_NAME: Final = re.compile(r"(?:xla|megascale)_[a-z0-9_]+")


def flag_entries(value: Entries) -> Entries | None:
    """The flags among the entries: several such names, or one that is known."""
    found = {
        name: inner
        for name, inner in value.entries.items()
        if _NAME.fullmatch(name) and _is_value(inner)
    }
    return Entries(found) if len(found) > 1 or any(map(_is_known, found)) else None


def _is_value(value: Value) -> bool:
    """One value: a text of flags under such a key is something else."""
    return isinstance(value, Traced) and not value.text.lstrip().startswith("-")


def _is_known(name: str) -> bool:
    from counterpoint.flags.catalogue import history

    return name.startswith(LIBTPU) or history(name) is not None


def for_their_chip(given: Iterable[Given]) -> list[Given]:
    """The same, with TPUs' flags where libtpu reads them; those of both with them, if alone."""
    every = list(given)
    gpu = any(it.name.startswith("xla_gpu_") for it in every)
    tpu = any(it.name.startswith(LIBTPU) for it in every)
    return [
        replace(it, channel=Channel.LIBTPU_INIT_ARGS)
        if it.name.startswith(LIBTPU) or (tpu and not gpu)
        else it
        for it in every
    ]
