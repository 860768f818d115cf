"""URLs that try to reach internal addresses: every closed address in every encoding and spelling, and tricks with the
URL."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from tests.support.dialling import PUBLIC

Vector: TypeAlias = tuple[str, list[str]]

CLOSED_V4 = (
    "0.0.0.0",  # noqa: S104 - it is called here, never listened on
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
)
CLOSED_V6 = (
    "::",
    "::1",
    "::2",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "64:ff9b:1::1",
    "8000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::5efe:8.8.8.8",
    "febf::1",
    "fec0::1",
    "fec0:0:0:ffff::1",
    "ff02::1",
    "ff0e::1",
)
LOCAL_NAMES = (
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
    "internal",
    "printer.local",
    "nas.home.arpa",
)


_ZONED = ("fe80::1%2", "2606:4700::1111%2")
_ZONED_HOSTS = ("hooks.example.org", "[fe80::1%252]", "[fe80::1%2]", "[2606:4700::1111%252]", "[2606:4700::1111%eth0]")


def vectors() -> dict[str, list[Vector]]:
    return {
        "plain": [(_url(address), [address]) for address in (*CLOSED_V4, *CLOSED_V6)],
        "by name": [("http://hooks.example.org/", [address]) for address in (*CLOSED_V4, *CLOSED_V6)],
        "wrapped": [(_url(wrapped), [wrapped]) for wrapped in _all_wrapped()],
        "wrapped by name": [("https://hooks.example.org/", [wrapped]) for wrapped in _all_wrapped()],
        "spelled": [(f"http://{host}/", [PUBLIC]) for address in CLOSED_V4 for host in _spellings(address)],
        "local names": [(f"https://{name}/", [PUBLIC]) for name in LOCAL_NAMES],
        "zones": [(f"http://{host}/", [address]) for host in _ZONED_HOSTS for address in _ZONED],
        "one bad among good": [("http://hooks.example.org/", list(mixed)) for mixed in _mixed()],
        "tricks": [(url, [PUBLIC]) for url in TRICKS],
    }


def _url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"


def _mixed() -> Iterator[tuple[str, ...]]:
    for bad in (*CLOSED_V4, *CLOSED_V6):
        yield PUBLIC, bad
        yield bad, PUBLIC


def _all_wrapped() -> Iterator[str]:
    for address in CLOSED_V4:
        yield from wrapped(address)


def wrapped(address: str) -> Iterator[str]:
    """Return an IPv4 address in every form in which IPv6 can embed one."""
    plain = IPv4Address(address)
    bits = int(plain)
    yield f"::ffff:{address}"
    yield IPv6Address(0xFFFF << 32 | bits).exploded
    yield f"::{address}"  # IPv4-compatible
    yield f"::ffff:0:{address}"  # IPv4-translated
    yield f"64:ff9b::{address}"  # NAT64
    yield f"64:ff9b:1::{address}"  # NAT64 of one network
    yield str(IPv6Address(0x2002 << 112 | bits << 80 | 1))  # 6to4
    yield str(IPv6Address(0x2002 << 112 | int(IPv4Address(PUBLIC)) << 80 | 0x5EFE << 32 | bits))  # ISATAP in 6to4
    yield str(IPv6Address(0x2606_4700 << 96 | 0x5EFE << 32 | bits))  # ISATAP
    yield str(IPv6Address(0x2606_4700 << 96 | 0x0200_5EFE << 32 | bits))
    yield str(IPv6Address(0x2001_0000 << 96 | 0x0808_0808 << 64 | bits ^ 0xFFFF_FFFF))  # Teredo, this client
    yield str(IPv6Address(0x2001_0000 << 96 | bits << 64 | 0x0808_0808))  # Teredo, this server


def _spellings(address: str) -> Iterator[str]:
    first, second, third, fourth = (int(part) for part in address.split("."))
    bits = int(IPv4Address(address))
    yield str(bits)
    yield hex(bits)
    yield hex(bits).upper().replace("0X", "0x")
    yield f"0{bits:o}"
    yield f"0x{first:02x}.0x{second:02x}.0x{third:02x}.0x{fourth:02x}"
    yield f"0{first:o}.0{second:o}.0{third:o}.0{fourth:o}"
    yield f"0{first:03o}.{second}.{third}.{fourth}"
    yield f"{first:04}.{second:04}.{third:04}.{fourth:04}"
    yield f"{first}.{bits & 0xFFFFFF}"
    yield f"{first}.{second}.{bits & 0xFFFF}"
    yield f"0x{first:x}.{second}.{bits & 0xFFFF}"
    yield f"{address}."
    yield f"{address}.."
    yield f".{address}"
    yield address.replace(".", "\u3002")  # ideographic full stop
    yield address.replace(".", "%2e")
    yield "".join(f"%{ord(character):02x}" for character in address)
    yield "".join(chr(ord(character) + 0xFEE0) if character.isdigit() else character for character in address)
    yield "".join(_circled(character) for character in address)
    yield f"[{address}]"
    yield f"{address}%00.example.org"
    yield f"user@{address}"
    yield f"hooks.example.org@{address}"
    yield f"hooks.example.org:80@{address}"
    yield f"{address}:99999"


def _circled(character: str) -> str:
    if not character.isdigit():
        return character
    return chr(0x2460 + int(character) - 1) if character != "0" else "\u24ea"


TRICKS = (
    "",
    "hooks.example.org",
    "//hooks.example.org/",
    "http:hooks.example.org",
    "http:/hooks.example.org",
    "http:///hooks.example.org",
    "http://",
    "http://?",
    "http://#",
    "http://:80/",
    "http://./",
    "http://../",
    "http://@/",
    "http://hooks.example.org\\@127.0.0.1/",
    "http://127.0.0.1\\@hooks.example.org/",
    "http:\\\\127.0.0.1\\",
    "http://hooks.example.org:80\\@127.0.0.1/",
    "http://hooks.example.org@127.0.0.1@hooks.example.org/",
    "http://hooks.example.org#@127.0.0.1:80@x/\n",
    "http://hooks.example.org /",
    " http://hooks.example.org/",
    "http://hooks.example.org/ ",
    "http://hooks.example.org\t/",
    "ht\ntp://hooks.example.org/",
    "http://hooks.exam\rple.org/",
    "http://hooks.example.org/\r\nHost: 127.0.0.1",
    "http://hooks.example.org/\x00",
    "http://hooks.example.org\x00.example.org/",
    "http://hooks.example.org\x7f/",
    "http://hooks%2eexample.org/",
    "http://127.0.0.1%23.example.org/",
    "http://hooks.example.org:0/",
    "http://hooks.example.org:-1/",
    "http://hooks.example.org:+80/",
    "http://hooks.example.org:8 0/",
    "http://hooks.example.org:65536/",
    "http://hooks.example.org:80:80/",
    "http://hooks.example.org:\u0661/",
    "http://hooks..example.org/",
    "http://-hooks.example.org/",
    "http://hooks-.example.org/",
    f"http://{'a' * 64}.example.org/",
    f"http://{'a.' * 130}org/",
    f"http://hooks.example.org/{'a' * 9000}",
    "http://h\u00f6oks.example.org/",
    "http://hoo\u212as.example.org/",
    "http://hooks.example.org\u2044path/",
    "http://hooks.example.org\uff0fpath/",
    "http://hooks.example.org/\ud800",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[]/",
    "http://[:]/",
    "http://[::g]/",
    "http://[1.2.3.4]/",
    "http://[::ffff:127.0.0.1.]/",
    "file:///etc/passwd",
    "ftp://hooks.example.org/",
    "gopher://hooks.example.org:6379/_FLUSHALL",
    "dict://hooks.example.org:11211/",
    "ws://hooks.example.org/",
    "wss://hooks.example.org/",
    "unix:///run/socket",
    "javascript://hooks.example.org/",
    "data:text/plain,hello",
    "httpx://hooks.example.org/",
    "http+unix://%2frun%2fsocket/",
)
