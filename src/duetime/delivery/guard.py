"""Decides which addresses may be dialled for a URL that an agent gave: public ones, and what the operator allows."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from duetime.core.errors import InvalidInput
from duetime.delivery.addresses import as_dialled, why_closed
from duetime.delivery.resolving import Lookup, Resolver
from duetime.delivery.urls import BadAddress, plain_host

_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")
_LOCAL = "is a name of a local network"
_WITH_PORT = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})", re.ASCII)


class Forbidden(Exception):
    """A host that may not be called; the text names the host and never an address that it resolved to, because names
    of an inner network are nobody else's business."""


class Guard:
    def __init__(self, allowed: Sequence[str] = (), *, lookup: Lookup = socket.getaddrinfo) -> None:
        self._allowed = [_read(entry) for entry in allowed]
        self._resolver = Resolver(lookup)

    def check(self, host: str, port: int, within: float = 5.0) -> list[str]:
        """The addresses to dial, all of them checked. One bad address among them refuses the host: whoever answers
        the lookup chooses their order. Raises Forbidden, or Unresolved."""
        try:
            name = plain_host(host)
        except BadAddress as error:
            raise Forbidden(str(error)) from None
        if any(entry.names(name, port) for entry in self._allowed):
            return self._resolver.addresses(name, port, within)
        local = is_local_name(name)
        if local and not any(entry.network for entry in self._allowed):
            raise _refused(name, _LOCAL)
        addresses = self._resolver.addresses(name, port, within)
        for address in addresses:
            if any(entry.holds(address, port) for entry in self._allowed):
                continue
            if local:
                raise _refused(name, _LOCAL)
            if why := why_closed(address):
                raise _refused(name, f"leads to {why}")
        return addresses


class _Allowed(NamedTuple):
    """One entry of the operator's list: a name or a network, at one port or at any."""

    name: str = ""
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    def names(self, host: str, port: int) -> bool:
        return self.name == host and self.port in (None, port)

    def holds(self, address: str, port: int) -> bool:
        return self.network is not None and as_dialled(address) in self.network and self.port in (None, port)


def _read(entry: str) -> _Allowed:
    text = entry.strip()
    parts = _WITH_PORT.fullmatch(text)
    port = int(parts["port"]) if parts else None
    host = (parts["host"] if parts else text).strip("[]")
    try:
        return _Allowed(network=ip_network(host), port=port)
    except ValueError:
        pass  # then it has to be a name
    try:
        return _Allowed(name=plain_host(host), port=port)
    except BadAddress:
        raise InvalidInput(
            f"{entry!r} is no host to allow; write a name, a name with its port (printer.lan:8080),"
            " an address or a network (10.1.0.0/16, without bits after the prefix)",
            field="allowed_hosts",
        ) from None


def is_local_name(name: str) -> bool:
    return any(name == suffix or name.endswith("." + suffix) for suffix in _LOCAL_NAMES)


def _refused(host: str, why: str) -> Forbidden:
    return Forbidden(
        f"{host} {why}; only public hosts may be called, and those that an operator puts into allowed_hosts"
    )
