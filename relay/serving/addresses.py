"""Where connections may come from: lists of addresses and networks, and what an address is counted under."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

_NEIGHBOURS: Final = 64
"""Bits of an IPv6 address that its host does not choose: a brake that went by all 128 would brake nobody."""


class Addresses:
    """The addresses of some networks in CIDR notation."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(each) for each in networks]

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        """Whether the address of a peer, as the socket tells it, is one of them."""
        host = plain(address)
        return any(host in network for network in self._networks)

    def admit(self, address: str) -> bool:
        """Whether a list that names nobody for everybody, as those of the configuration do, lets the address in."""
        return not self._networks or address in self


def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """A peer's address without its zone; one of IPv4 that came through an IPv6 socket as one of IPv4."""
    host = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped:
        return host.ipv4_mapped
    return host


def neighbourhood(address: str) -> str:
    """What failures of a peer are counted under: its IPv4 address, or its network of IPv6."""
    host = plain(address)
    if isinstance(host, ipaddress.IPv4Address):
        return str(host)
    return str(ipaddress.ip_network((host, _NEIGHBOURS), strict=False))
