"""From variables, as a source sets them, to Written: flags split up, the rest as it stands.

A source hands over assignments in their order. XLA_FLAGS and LIBTPU_INIT_ARGS hold flags; any
other variable is one setting, of which the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.flag_words import Found, Variable, read_flags
from counterpoint.flags.sources.traced import Traced
from counterpoint.flags.written import Given, Place, Slip, SlipKind, Written

TPU: Final = "LIBTPU_INIT_ARGS"
FLAGS: Final = {"XLA_FLAGS": Channel.XLA_FLAGS, TPU: Channel.LIBTPU_INIT_ARGS}
"""Variables that hold flags."""

_FAMILIES: Final = (
    *("XLA_", "JAX_", "JAXLIB_", "LIBTPU_", "TPU_", "MEGASCALE_", "TSL_", "PJRT_"),
    *("TF_CPP_", "TF_GPU_", "TF_XLA_", "TF_FORCE_", "TF_ENABLE_", "TF_DISABLE_"),
    *("NCCL_", "RCCL_", "NVTE_", "NVSHMEM_", "UCX_", "GLOO_", "MPI4JAX_"),
    *("CUDA_", "CUDNN_", "CUBLAS", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "GPU_"),
)
_OF_ONE_RUN: Final = re.compile(
    r"COORDINATOR|ADDRESS|_PORT$|_IP$|PROCESS|VISIBLE|RANK|IFNAME|_DIR$|_PATH$|_IDS?$|IMAGE"
)
"""Names of places, which a script can only know when it runs: nothing to say about."""

_WITH_DOTS: Final = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_LOOKS_SET: Final = re.compile(r"\b([A-Z][A-Z0-9_]+)\+?[=:]|\bname: *[\"']?([A-Z][A-Z0-9_]+)")


def is_setting(name: str) -> bool:
    """Whether a variable is one of JAX, XLA, the communication libraries or the driver."""
    return name.startswith(_FAMILIES)


def of_others(name: str) -> bool:
    """Whether it is a name such as `http.proxy`: nothing here reads it, and Kubernetes takes it."""
    plain = name.replace("-", "_").replace(".", "_")
    return plain != name and bool(_WITH_DOTS.fullmatch(name)) and not is_setting(plain)


@dataclass(frozen=True, slots=True)
class Assigned:
    """One variable with the value it ends up with."""

    name: str
    value: Traced
    via: str = ""
    line: int | None = None  # where the value is empty


def may_set(text: str) -> bool:
    """Whether a text that is not read has something in it that looks like a setting."""
    return any(is_setting(match[1] or match[2]) for match in _LOOKS_SET.finditer(text))


def write_up(assigned: Iterable[Assigned], where: str) -> Found:
    """Settings and slips of all variables; what is not known of other people's is left out."""
    found = Found()
    for one in assigned:
        channel = FLAGS.get(one.name)
        if channel:
            inner = read_flags(one.value, Variable(where, channel, one.via))
            found.given += inner.given
            found.slips += inner.slips
            found.inherited += map(_inherited, one.value.inherits)
        elif one.value.known:
            found.given.append(_given(one, where))
        elif is_setting(one.name):
            found.given.append(_given(one, where))
            inherited = one.value.shown in (f"${one.name}", f"${{{one.name}}}")
            found.slips += (
                [] if inherited or _OF_ONE_RUN.search(one.name) else [_needs_shell(one, where)]
            )
    return found


def _inherited(one: tuple[str, int | None]) -> str:
    name, line = one
    place = f"line {line}: " if line else ""
    return f"{place}what {name} holds before the program starts"


def other_programs(superseded: Iterable[Assigned], where: str, form: str) -> tuple[Written, ...]:
    """Flags that a program of the source gets and the last one does not."""
    found = (write_up([one], where) for one in superseded)
    return tuple(
        Written(
            where=where,
            form=form,
            given=tuple(one.given),
            slips=tuple(one.slips),
            inherited=tuple(dict.fromkeys(one.inherited)),
        )
        for one in found
        if one.given or one.slips
    )


def _given(one: Assigned, where: str) -> Given:
    shown = one.value.shown
    return Given(
        channel=Channel.ENVIRONMENT,
        name=one.name,
        value=shown,
        place=_place(one, where),
        text=f"{one.name}={shown}",
        via=one.via,
        known=one.value.known,
    )


def _needs_shell(one: Assigned, where: str) -> Slip:
    return Slip(
        kind=SlipKind.UNKNOWABLE,
        channel=Channel.ENVIRONMENT,
        text=f"{one.name}={one.value.shown}",
        why="what it stands for is known only when the program is started",
        place=_place(one, where),
    )


def _place(one: Assigned, where: str) -> Place:
    place = one.value.place_at(0, where)
    return Place(where, one.line) if one.line else place
