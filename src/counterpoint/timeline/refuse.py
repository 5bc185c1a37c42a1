"""Files that are often taken for a profile, each refused with the reason it can't be one."""

from __future__ import annotations

import re

from counterpoint.core.errors import InputError


def refuse_others(head: bytes, name: str, *, size_known: bool) -> None:
    """Raise what is to be told when a file starts like one of them."""
    if not head:
        capture = size_known and name.endswith(".pb")
        raise InputError(
            f"{name}: the file is empty (0 bytes)",
            why="a capture above 2 GB can't be written as one protobuf and leaves an empty file"
            if capture
            else None,
            next="capture fewer steps, or set python_tracer_level=0 and host_tracer_level=1"
            if capture
            else "name the profile itself, or check the command that writes into this pipe",
        )
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml")):
        raise InputError(
            f"{name}: a web page, not a profile",
            why="the download saved the page that shows the file",
            next="download the raw file",
        )
    if start.startswith(b"version https://git-lfs"):
        raise InputError(
            f"{name}: a Git LFS pointer, not the file it stands for", next="git lfs pull"
        )
    if name.endswith(".riegeli") or head[:2] == b"\x83\xaf":
        raise InputError(
            f"{name}: XSpace in a Riegeli container, which this version does not read",
            next="capture fewer steps so that the profile stays below 2 GB and is an .xplane.pb",
        )
    if head[257:262] == b"ustar":
        raise InputError(
            f"{name}: a tar archive, which is not looked into",
            next="unpack it with `tar xf`, and name the directory with the profile",
        )
    _refuse_relatives(head, name)


def _refuse_relatives(head: bytes, name: str) -> None:
    """Files around a profile that are not the profile: a trace made from it, its HLO."""
    kind = _kind(head)
    if kind == "trace" or name.endswith((".pftrace", ".perfetto-trace")):
        raise InputError(
            f"{name}: a Perfetto trace, which is for looking at and is not read",
            next="name the profile it was made from",
        )
    if kind == "module":
        raise InputError(
            f"{name}: an HLO module, not a profile",
            why="it tells what is computed, and no times",
            next="name a profile (.xplane.pb); counterpoint.read_program reads this file",
        )


def _kind(head: bytes) -> str | None:
    """Told by the first field, which an XPlane profile, a trace and HLO all number 1."""
    if head.lstrip().startswith(b"HloModule "):
        return "module"
    if head[:1] != b"\x0a":
        return None
    size, at = 0, 1
    while at < min(len(head), 6):
        size |= (head[at] & 0x7F) << 7 * (at - 1)
        at += 1
        if head[at - 1] < 0x80:
            break
    first, behind = head[at : at + size], head[at + size : at + size + 1]
    if first[:1] == b"\x0a" and first[2:3].isalnum():  # an HloProto: its module, the module's name
        return "module"
    if behind == b"\x12" and len(first) == size and re.fullmatch(rb"[\w.\-]+", first):
        return "module"  # a bare HloModuleProto: its name, its entry's name
    return "trace" if first[:1] in (b"\x40", b"\x50") else None  # a packet's time or sequence
