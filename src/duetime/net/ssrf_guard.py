"""Guard against SSRF: name lookups with a timeout, and the decisions which addresses are public and which may be
called."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple, TypeAlias

from duetime.engine.errors import InvalidInput
from duetime.engine.model import LOCAL
from duetime.engine.urls import BadAddress, plain_host
from duetime.engine.value_class import pattern
from duetime.net.calls import CallFailed
from duetime.net.helper_threads import Abandoned, Helpers, NoneFree

Lookup: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""A function that is called like `socket.getaddrinfo`."""


class Unresolved(CallFailed):
    """A name has no address at present. This is never permanent, because without a network no name has one."""


class Resolver:
    """Looks up names. A lookup cannot be interrupted, so each runs in its own thread, which may be abandoned."""

    def __init__(self, lookup: Lookup | None = socket.getaddrinfo) -> None:
        """Without `lookup`, no name has an address."""
        self._lookup = lookup
        self._helpers = Helpers()

    def addresses(self, host: str, port: int, within: float, owner: str = LOCAL) -> list[str]:
        """Return every address of the host once, in the order in which they should be tried."""
        try:
            ip_address(host)
            return [host]
        except ValueError:
            pass  # in that case, it is a name
        if (lookup := self._lookup) is None:
            return []
        try:
            addresses = self._helpers.run(lambda: _look_up(lookup, host, port), within, owner)
        except NoneFree:
            reason = f"{host} was not looked up, because too many lookups hang; check the name server"
            raise Unresolved(reason, untried=True) from None
        except Abandoned:
            raise Unresolved(f"{host} could not be looked up in time", timed_out=True) from None
        if not addresses:
            raise Unresolved(f"{host} was not found; check the name, or the network")
        return addresses


def _look_up(lookup: Lookup, host: str, port: int) -> list[str]:
    try:
        entries = lookup(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


_CLOSED = {
    "an unspecified address": ("0.0.0.0/8", "::/128"),
    "a private address": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "an address inside a provider's network": ("100.64.0.0/10",),
    "a loopback address": ("127.0.0.0/8", "::1/128"),
    "a cloud metadata address": ("168.63.129.16/32",),
    "a link-local address": ("169.254.0.0/16", "fe80::/10"),
    "a site-local address": ("fec0::/10",),
    # Teredo is in 2001::/23 among others: no receivers are there.
    "a reserved address": ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "2001::/23"),
    "an address for documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "an address for benchmarks": ("198.18.0.0/15",),
    "a multicast address": ("224.0.0.0/4", "ff00::/8"),
}
_NETWORKS = tuple((ip_network(network), kind) for kind, networks in _CLOSED.items() for network in networks)
_GLOBAL_V6 = IPv6Network("2000::/3")
"""Everything that has been allocated so far; all else is refused. `ipaddress.is_global` is not sufficient, because it
accepts several of the embeddings."""

_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_ISATAP = 0x0000_5EFE
_ISATAP_GLOBAL = 0x0200_5EFE


def why_closed(address: str) -> str | None:
    """Return what kind of address this is if it is not reachable from the whole internet, otherwise None."""
    read = ip_address(address)
    return _kind_of(read) if isinstance(read, IPv4Address) else _why_v6(read)


def as_dialled(address: str) -> IPv4Address | IPv6Address:
    """Return the address that is dialled: the IPv4 address for a mapped one."""
    read = ip_address(address)
    if isinstance(read, IPv6Address) and read in _MAPPED:
        return _last_32_bits(read)
    return read


def _kind_of(address: IPv4Address | IPv6Address) -> str | None:
    return next((kind for network, kind in _NETWORKS if address in network), None)


def _why_v6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "an address of one network interface"
    for inner in _embedded_addresses(address):
        if why := _kind_of(inner):
            return why
    if address in _MAPPED or address in _NAT64:
        return None  # the embedded address has decided
    if why := _kind_of(address):
        return why
    return None if address in _GLOBAL_V6 else "a reserved address"


def _embedded_addresses(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the embedded IPv4 addresses, to which a gateway on the way would forward."""
    if address in _MAPPED or address in _NAT64:
        yield _last_32_bits(address)
    if address in _SIX_TO_FOUR:
        yield IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)
    if int(address) >> 32 & 0xFFFF_FFFF in (_ISATAP, _ISATAP_GLOBAL):
        yield _last_32_bits(address)


def _last_32_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


# Addresses that may be dialled for a URL from an agent: public ones, and those that the operator allows.

_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")
_LOCAL = "is a name of a local network"
_WITH_PORT = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})", re.ASCII)


class Forbidden(CallFailed):
    """A host that may not be called. The text names the host, but never an address that it resolved to, so that it does
    not disclose an internal network."""


class Guard:
    def __init__(self, allowed: Sequence[str] = (), *, lookup: Lookup | None = socket.getaddrinfo) -> None:
        self._allowed = [_read(entry) for entry in allowed]
        self._resolver = Resolver(lookup)

    def check(self, host: str, port: int, within: float = 5.0, owner: str = LOCAL) -> list[str]:
        """Return the addresses to dial, all of them checked. A single bad address refuses the host, because whoever
        answers the lookup chooses their order. Raise Forbidden or Unresolved."""
        try:
            name = plain_host(host)
        except BadAddress as error:
            raise Forbidden(str(error), permanent=True) from None
        if any(entry.names(name, port) for entry in self._allowed):
            return self._resolver.addresses(name, port, within, owner)
        local = is_local_name(name)
        if local and not any(entry.network for entry in self._allowed):
            raise _refusal(name, _LOCAL)
        addresses = self._resolver.addresses(name, port, within, owner)
        for address in addresses:
            if any(entry.holds(address, port) for entry in self._allowed):
                continue
            if local:
                raise _refusal(name, _LOCAL)
            if why := why_closed(address):
                raise _refusal(name, f"leads to {why}")
        return addresses


_NAMES = "|".join(map(re.escape, _LOCAL_NAMES))
MAY_BE_CLOSED: Final = pattern(
    rf"https?://(?:\[|[^/?#]*(?:[0-9]|\b0x[0-9a-f]*|\b(?:{_NAMES}))\.?(?::[0-9]*)?(?:[/?#]|$))", re.IGNORECASE
)
"""Addresses of which `is_closed` may say so, because their host is a number or a local name. Few are."""


def is_closed(host: str, port: int, allowed: Sequence[str]) -> bool:
    """Return whether a host may not be called, as far as that is known without looking it up."""
    try:
        Guard(allowed, lookup=None).check(host, port)
    except Forbidden:
        return True
    return False


class _Allowed(NamedTuple):
    """An entry of the operator's list: a name or a network, at one port or at any."""

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
        pass  # in that case, it has to be a name
    try:
        return _Allowed(name=plain_host(host), port=port)
    except BadAddress:
        raise InvalidInput(
            f"{entry!r} is not a host that can be allowed; write a name, a name with its port (printer.lan:8080),"
            " an address or a network (10.1.0.0/16, without bits after the prefix)",
            field="allowed_hosts",
        ) from None


def is_local_name(name: str) -> bool:
    return any(name == suffix or name.endswith("." + suffix) for suffix in _LOCAL_NAMES)


def _refusal(host: str, why: str) -> Forbidden:
    advice = "only public hosts may be called, and those that an operator puts into allowed_hosts"
    return Forbidden(f"{host} {why}; {advice}", permanent=True)
