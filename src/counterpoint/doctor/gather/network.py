"""The host's network, from the kernel: sysctls, interfaces, routes, ports, addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import HostNetwork, Interface, RdmaPort
from counterpoint.doctor.gather.kernel_files import names_in, number_of, text_of
from counterpoint.doctor.gather.tools import RunTool
from counterpoint.doctor.recommended import SYSCTLS

_UP: Final = 0x1
_HYSTART: Final = "sys/module/tcp_cubic/parameters/hystart_detect"


def gather_network(root: Path, ask: RunTool, host: str) -> HostNetwork:
    """Gather all network facts."""
    route = ask(("ip", "-4", "route", "show", "default"))
    return HostNetwork(
        sysctls=dict(_sysctls(root)),
        interfaces=tuple(_interfaces(root / "sys/class/net")),
        default=tuple(_default_routes(root)),
        rdma=tuple(_ports(root / "sys/class/infiniband")),
        hystart_detect=text_of(root / _HYSTART),
        route=route.splitlines()[0].strip() if route and route.strip() else None,
        addresses=_addresses(host),
    )


def _sysctls(root: Path) -> Iterator[tuple[str, str]]:
    for name in SYSCTLS:
        text = text_of(root / "proc/sys" / name.replace(".", "/"))
        if text is not None:
            yield name, text


def _interfaces(directory: Path) -> Iterator[Interface]:
    for name in names_in(directory):
        interface = directory / name
        state = text_of(interface / "operstate")
        if state is None:
            continue  # bonding_masters and other files
        flags = text_of(interface / "flags") or "0x0"
        set_up = bool(int(flags, 16) & _UP) if flags.startswith("0x") else False
        yield Interface(
            name=name,
            up=state == "up" or (state == "unknown" and set_up),
            physical=(interface / "device").exists() or (interface / "bonding").exists(),
            mtu=number_of(interface / "mtu"),
            speed_mbps=number_of(interface / "speed"),
        )


def _default_routes(root: Path) -> Iterator[str]:
    for line in (text_of(root / "proc/net/route") or "").splitlines()[1:]:
        words = line.split()
        if len(words) > 1 and words[1] == "00000000":
            yield words[0]


def _ports(directory: Path) -> Iterator[RdmaPort]:
    for device in names_in(directory):
        for port in names_in(directory / device / "ports"):
            port_directory = directory / device / "ports" / port
            yield RdmaPort(
                device=device,
                port=int(port) if port.isdecimal() else 0,
                active="ACTIVE" in (text_of(port_directory / "state") or ""),
                link_layer=text_of(port_directory / "link_layer") or "",
                rate=text_of(port_directory / "rate") or "",
            )


def _addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses that the name resolves to; None if there are none."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
