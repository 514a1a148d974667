"""Lists of allowed networks, and the unit in which the login throttle counts failures."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

_IPV6_NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that its host cannot choose. A host could evade a throttle on all 128 bits."""


class Addresses:
    """A set of networks in CIDR notation."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(each) for each in networks]

    def __bool__(self) -> bool:
        """Whether the set is not empty."""
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        """Whether it contains a client's address as the socket reports it."""
        host = plain(address)
        return any(host in network for network in self._networks)

    def admit(self, address: str) -> bool:
        """Whether the address is allowed. An empty list allows every address, as in the configuration."""
        return not self._networks or address in self


def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return a client's address without its zone. An IPv4 address mapped to IPv6 becomes IPv4."""
    host = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped:
        return host.ipv4_mapped
    return host


def throttle_unit(address: str) -> str:
    """Return the unit in which a client's failures are counted: its IPv4 address, or its IPv6 network."""
    host = plain(address)
    if isinstance(host, ipaddress.IPv4Address):
        return str(host)
    return str(ipaddress.ip_network((host, _IPV6_NETWORK_BITS), strict=False))
