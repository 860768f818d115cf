"""Strict parsing of URLs: anything that two programs could interpret differently is refused."""

from __future__ import annotations

import re
import string
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote

from duetime.engine.value_class import pattern

_MAX_URL_LENGTH = 8192
_PORTS = {"http": 80, "https": 443}
_UNSAFE = pattern(r"[\x00-\x20\x7f\\]")
_AUTHORITY = pattern(r"(?P<host>\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]|[^:\[\]]+)(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
_LABEL = pattern(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = pattern(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_UNQUOTED = string.punctuation
"""Characters that are sent unchanged: quoting them again would change the meaning of an address."""


class BadAddress(ValueError):
    """An address that cannot be used; the text says why and never quotes anything that may be a secret."""


class UrlParts(NamedTuple):
    scheme: str
    host: str
    """In lower case, without brackets and without a trailing dot."""
    port: int
    path: str
    """The path and the query, as they are sent."""

    @property
    def authority(self) -> str:
        """The host as written in a URL, with the port if it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=1024)  # every attempt parses the URL of its receiver, mostly the same few
def read_url(url: str) -> UrlParts:
    if len(url) > _MAX_URL_LENGTH:
        raise BadAddress(f"the address is longer than {_MAX_URL_LENGTH} characters; shorten it")
    if _UNSAFE.search(url):
        raise BadAddress("the address holds a space, a backslash or a control character; write it percent-encoded")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise BadAddress("the address must begin with http:// or https://")
    end = next((index for index, character in enumerate(rest) if character in "/?#"), len(rest))
    host, port = _host_and_port(rest[:end])
    path = rest[end:].partition("#")[0]
    try:
        sent = quote(path if path.startswith("/") else "/" + path, safe=_UNQUOTED)
    except UnicodeEncodeError:
        raise BadAddress("the address holds characters that cannot be sent; write it percent-encoded") from None
    return UrlParts(scheme, host, port or _PORTS[scheme], sent)


def plain_host(host: str) -> str:
    """Return a host in its canonical form: a name, or an address in standard notation."""
    if ":" in host:
        return _plain_v6(host)
    plain = host.lower().removesuffix(".")
    labels = plain.split(".")
    # Checked before lowercasing, because some non-ASCII letters become ASCII in lower case.
    if not host.isascii() or len(plain) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadAddress("the host name is not valid; write it in ASCII, such as hooks.example.org (or xn--…)")
    if _NUMBER.fullmatch(labels[-1]):
        return _plain_v4(plain)
    return plain


def _plain_v4(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        # Programs disagree about the meaning of 127.1, 0x7f000001 and 0177.0.0.1.
        raise BadAddress("the host is a number in an unusual spelling; write it as four decimal numbers") from None


def _plain_v6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except AddressValueError:
        raise BadAddress("the host is not a valid IPv6 address") from None
    if address.scope_id is not None:
        raise BadAddress("the host names a network interface (%); write the address without it")
    return str(address)


def _host_and_port(authority: str) -> tuple[str, int]:
    if "@" in authority:
        raise BadAddress("the address holds a user name before an @; send credentials in a header instead")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise BadAddress("the address has no valid host; write it like https://hooks.example.org/path")
    port = int(parts["port"] or 0)
    if port > 65535 or (parts["port"] and port == 0):
        raise BadAddress("the port must be between 1 and 65535")
    return plain_host(parts["host"].strip("[]")), port
