"""What an agent's URL can reach: public addresses, and what the operator allows. Nothing here dials a real one."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.urls import BadAddress, read_url
from duetime.net.client import CallFailed, Http, HttpCall
from duetime.net.ssrf_guard import MAY_BE_CLOSED, Forbidden, Guard, Unresolved, is_closed, why_closed
from tests.support.dialling import NOBODY, PUBLIC, Certified, Dialler, Names
from tests.support.hostile_urls import CLOSED_V4, Vector, vectors, wrapped
from tests.support.receiver import Receiver

VECTORS = vectors()
OPEN = (
    PUBLIC,
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
)


class Wire:
    """Calls that go through a guard to connects that are only counted."""

    def __init__(self, guard: Guard, dialler: Dialler | None = None, trust: ssl.SSLContext | None = None) -> None:
        self.dialler = dialler or Dialler()
        self._http = Http(SystemClock(), guard, dialler=self.dialler, trust=trust or NOBODY)

    def call(self, url: str) -> int | CallFailed:
        """The status, or what it failed with."""
        try:
            return self._http.send(HttpCall("POST", url, {}, b"hello")).status
        except CallFailed as failed:
            return failed
        finally:
            self._http.close()


def wire(*answers: Iterable[str], allowed: Iterable[str] = ()) -> Wire:
    return Wire(Guard(tuple(allowed), lookup=Names(*answers)))


def refused(vector: Vector) -> bool:
    url, addresses = vector
    attempt = wire(addresses)
    failed = attempt.call(url)
    return isinstance(failed, CallFailed) and failed.permanent and attempt.dialler.dialled == []


def test_there_are_enough_vectors_to_speak_of_a_guard() -> None:
    distinct = {(url, *addresses) for group in VECTORS.values() for url, addresses in group}
    assert len(distinct) >= 500


@pytest.mark.parametrize("group", VECTORS)
def test_nothing_hostile_is_dialled(group: str) -> None:
    assert [vector for vector in VECTORS[group] if not refused(vector)] == []


@pytest.mark.parametrize("group", VECTORS)
def test_what_is_closed_without_a_look_up_may_be_closed(group: str) -> None:
    """The quick look at an address passes over none that the guard refuses."""
    for address, _ in VECTORS[group]:
        with suppress(BadAddress):
            url = read_url(address)
            assert not is_closed(url.host, url.port, ()) or MAY_BE_CLOSED.match(address), address


@pytest.mark.parametrize("address", OPEN)
def test_a_public_address_is_dialled_as_it_was_checked(address: str) -> None:
    """The control: without it, a guard that refuses everything would look perfect."""
    for url in ("http://hooks.example.org/", f"http://[{address}]/" if ":" in address else f"http://{address}/"):
        attempt = wire([address])
        failed = attempt.call(url)
        assert isinstance(failed, CallFailed)
        assert not failed.permanent
        [(dialled, port)] = attempt.dialler.dialled
        assert (IPv6Address(dialled) if ":" in dialled else IPv4Address(dialled), port) == (
            IPv6Address(address) if ":" in address else IPv4Address(address),
            80,
        )


@given(st.ip_addresses(v=4))
def test_no_address_is_open_that_the_registries_call_otherwise(address: IPv4Address) -> None:
    """An oracle with other eyes: the standard library's, over all of IPv4, in each wrapping."""
    if address.is_global and not address.is_multicast:
        return
    assert why_closed(str(address))
    assert all(why_closed(form) for form in wrapped(str(address)))


@given(st.ip_addresses(v=6))
def test_nothing_outside_the_global_part_of_ipv6_is_open_without_an_open_address_inside(address: IPv6Address) -> None:
    if address in IPv6Network("2000::/3"):
        return
    inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    wraps = address in IPv6Network("::ffff:0:0/96") or address in IPv6Network("64:ff9b::/96")
    assert why_closed(str(address)) or (wraps and not why_closed(str(inner)))


def test_a_name_that_changes_its_mind_is_checked_at_each_connection() -> None:
    names = Names([PUBLIC], ["127.0.0.1"])
    attempt = Wire(Guard(lookup=names))
    first, second = attempt.call("http://hooks.example.org/"), attempt.call("http://hooks.example.org/")
    assert isinstance(first, CallFailed)
    assert not first.permanent
    assert isinstance(second, CallFailed)
    assert second.permanent
    assert attempt.dialler.dialled == [(PUBLIC, 80)]
    assert names.asked == ["hooks.example.org"] * 2  # one lookup for each: nothing is asked between check and connect


def test_a_connection_goes_to_the_checked_address_and_tls_to_the_name(tmp_path: Path) -> None:
    certified = Certified("hooks.example.org", tmp_path)
    with Receiver(tls=certified.server) as receiver:
        attempt = Wire(Guard(lookup=Names([PUBLIC])), Dialler(receiver.port), certified.trust)
        assert attempt.call("https://hooks.example.org/x?y=1") == 200
    assert attempt.dialler.dialled == [(PUBLIC, 443)]
    assert certified.asked == ["hooks.example.org"]
    assert receiver.requests[0].headers["host"] == "hooks.example.org"


def test_a_certificate_of_another_name_is_not_accepted(tmp_path: Path) -> None:
    certified = Certified("hooks.example.org", tmp_path)
    with Receiver(tls=certified.server) as receiver:
        attempt = Wire(Guard(lookup=Names([PUBLIC])), Dialler(receiver.port), certified.trust)
        failed = attempt.call("https://other.example.org/")
    assert isinstance(failed, CallFailed)
    assert "certificate" in failed.reason
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("entry", "url", "address"),
    [
        ("printer.local", "http://printer.local/", "10.0.0.5"),
        ("Printer.Local.", "http://printer.LOCAL:631/", "10.0.0.5"),
        ("printer.local:631", "http://printer.local:631/", "10.0.0.5"),
        ("localhost", "http://localhost:8080/", "127.0.0.1"),
        ("10.0.0.5", "http://hooks.example.org/", "10.0.0.5"),
        ("10.0.0.5", "http://10.0.0.5/", "10.0.0.5"),
        ("10.0.0.5:80", "http://10.0.0.5/", "10.0.0.5"),
        ("10.0.0.0/8", "http://nas.internal/", "10.0.0.5"),
        ("10.0.0.0/8", "http://hooks.example.org/", "::ffff:10.0.0.5"),
        ("fd00::/8", "http://[fd00::5]/", "fd00::5"),
        ("[fd00::5]:80", "http://[fd00::5]/", "fd00::5"),
        ("fd00::5", "http://hooks.example.org/", "fd00::5"),
    ],
)
def test_what_the_operator_allows_is_dialled(entry: str, url: str, address: str) -> None:
    attempt = wire([address], allowed=[entry])
    attempt.call(url)
    assert [dialled for dialled, _ in attempt.dialler.dialled] == [address]


@pytest.mark.parametrize(
    ("entry", "url", "addresses"),
    [
        ("printer.local:631", "http://printer.local/", ["10.0.0.5"]),
        ("10.0.0.5:81", "http://10.0.0.5/", ["10.0.0.5"]),
        ("printer.local", "http://other.local/", ["10.0.0.5"]),
        ("example.org", "http://hooks.example.org/", ["10.0.0.5"]),
        ("10.0.0.0/8", "http://hooks.example.org/", ["10.0.0.5", "192.168.0.1"]),
        ("10.0.0.0/8", "http://nas.internal/", [PUBLIC]),
        ("10.0.0.0/8", "http://hooks.example.org/", ["2002:a00:5::1"]),
        ("::/96", "http://hooks.example.org/", ["10.0.0.5"]),
    ],
)
def test_what_the_operator_allows_opens_nothing_else(entry: str, url: str, addresses: list[str]) -> None:
    attempt = wire(addresses, allowed=[entry])
    failed = attempt.call(url)
    assert isinstance(failed, CallFailed)
    assert failed.permanent
    assert attempt.dialler.dialled == []


@pytest.mark.parametrize("entry", ["", "http://printer.local/", "10.0.0.5/8", "a b", "printer.local:", "*.local"])
def test_an_entry_that_cannot_be_read_is_said_at_once(entry: str) -> None:
    with pytest.raises(InvalidInput, match="host that can be allowed"):
        Guard([entry])


@pytest.mark.parametrize("host", ["LOCALHOST.", "0x7f.1", "127.0.0.1.", "fe80::1%eth0", "a b", "", "::ffff:127.0.0.1"])
def test_the_guard_does_not_rely_on_who_read_the_url(host: str) -> None:
    with pytest.raises(Forbidden):
        Guard(lookup=Names([PUBLIC])).check(host, 80)


def test_a_refusal_does_not_tell_what_a_name_resolves_to() -> None:
    with pytest.raises(Forbidden) as refusal:
        Guard(lookup=Names(["10.11.12.13"])).check("db.corp.example", 80)
    assert "10.11" not in str(refusal.value)
    assert "db.corp.example leads to a private address" in str(refusal.value)


def test_local_names_are_not_even_looked_up() -> None:
    names = Names([PUBLIC])
    with pytest.raises(Forbidden):
        Guard(lookup=names).check("vault.internal", 80)
    assert names.asked == []


def test_a_lookup_that_hangs_costs_no_more_than_its_share() -> None:
    hanging, clock = threading.Event(), SystemClock()

    def lookup(host: str, port: int, **options: object) -> list[tuple[object, ...]]:
        hanging.wait(30)
        return []

    guard, begun = Guard(lookup=lookup), clock.monotonic()
    try:
        with pytest.raises(Unresolved, match="in time"):
            guard.check("hooks.example.org", 80, within=0.2)
        assert 0.15 < clock.monotonic() - begun < 20
    finally:
        hanging.set()


def test_lookups_that_are_left_behind_are_bounded() -> None:
    hanging, begun = threading.Event(), threading.Semaphore(0)

    def lookup(host: str, port: int, **options: object) -> list[tuple[object, ...]]:
        begun.release()
        hanging.wait()
        return []

    guard = Guard(lookup=lookup)
    try:
        for _ in range(128):
            with pytest.raises(Unresolved, match="in time"):
                guard.check("hooks.example.org", 80, within=0.001)
            assert begun.acquire(timeout=30)
        with pytest.raises(Unresolved, match="too many lookups hang"):
            guard.check("hooks.example.org", 80, within=30)
        with pytest.raises(Unresolved, match="in time"):
            guard.check("hooks.example.org", 80, within=0.001, owner="ada")
        failed = Wire(guard).call("http://hooks.example.org/")
        assert isinstance(failed, CallFailed) and failed.untried and not failed.timed_out
        with pytest.raises(CallFailed, match="in time"):
            Http(SystemClock(), guard).send(
                HttpCall("GET", "http://hooks.example.org/", {}, patience=0.05, owner="ada")
            )
    finally:
        hanging.set()


@pytest.mark.parametrize("error", [OSError(-2, "Name or service not known"), UnicodeError("label too long")])
def test_a_name_that_is_not_found_may_be_found_later(error: Exception) -> None:
    def lookup(host: str, port: int, **options: object) -> list[tuple[object, ...]]:
        raise error

    failed = Wire(Guard(lookup=lookup)).call("http://hooks.example.org/?token=secret")
    assert isinstance(failed, CallFailed)
    assert not failed.permanent
    assert "hooks.example.org was not found" in failed.reason


def test_the_next_address_is_tried_and_the_first_takes_only_its_share() -> None:
    with Receiver() as receiver:
        dialler = Dialler(receiver.port, dead=["2606:4700::1"])
        assert Wire(Guard(lookup=Names(["2606:4700::1", PUBLIC])), dialler).call("http://hooks.example.org/") == 200
    assert [address for address, _ in dialler.dialled] == ["2606:4700::1", PUBLIC]
    first, second = dialler.timeouts
    assert first is not None
    assert second is not None
    assert first <= 2.5 < second <= 5


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    attempt = wire([PUBLIC])
    attempt.call("http://hooks.example.org/")
    assert attempt.dialler.dialled == [(PUBLIC, 80)]


def test_every_closed_network_has_an_example_among_the_vectors() -> None:
    assert {why_closed(address) for address in CLOSED_V4} >= {
        "a cloud metadata address",
        "a link-local address",
        "a loopback address",
        "a multicast address",
        "a private address",
        "a reserved address",
        "an address for benchmarks",
        "an address for documentation",
        "an address inside a provider's network",
        "an unspecified address",
    }
