"""Compressed responses: whole texts are, streams are not, and a page has no text that is the same in each."""

from __future__ import annotations

import gzip
import re

import pytest

from duetime.http.compression import accepts_gzip
from tests.support.browsing import FORM, Browser, made
from tests.support.web import Site

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


def test_pages_files_and_json_are_compressed(served: Site, local: Browser) -> None:
    for number in range(5):
        made(served, f"compressed {number}")
    style = re.search(rb'"(/static/duetime.css[^"]+)"', local.get("/").body)
    assert style is not None
    for path in ("/", "/schedules", style[1].decode(), "/api/v1/schedules"):
        plain, packed = local.get(path), local.get(path, **GZIP)
        assert "content-encoding" not in plain.headers, path
        assert packed.headers["content-encoding"] == "gzip", path
        assert "Accept-Encoding" in packed.headers["vary"], path
        assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 2, path
        assert abs(len(gzip.decompress(packed.body)) - len(plain.body)) < 200, path


def test_small_answers_and_streams_are_sent_as_they_are(served: Site, local: Browser) -> None:
    assert "content-encoding" not in served.ask("GET", "/healthz", GZIP).headers
    assert "content-encoding" not in local.get("/api/v1/whoami", **GZIP).headers
    assert "content-encoding" not in served.ask("GET", "/", {"Accept-Encoding": "gzip;q=0"}).headers


@pytest.mark.parametrize(
    ("header", "accepted"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("", False), ("br", False), ("gzip; q=0", False), ("identity", False)],
)
def test_a_client_says_whether_it_reads_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) == accepted


def test_the_proof_of_a_form_is_different_in_every_response_and_always_fits(served: Site, local: Browser) -> None:
    """Otherwise the lengths of compressed pages would tell it, letter by letter."""
    proofs = {local.proof() for _ in range(3)}
    assert len(proofs) == 3
    for proof in proofs:
        reply = local.send("/preferences", {"csrf": proof, "theme": "dark", "to": "/help"}, FORM)
        assert (reply.status, reply.headers["location"]) == (303, "/help?did=chosen")
    [some, *_] = proofs
    for wrong in (some[:-1] + ("0" if some[-1] != "0" else "1"), some.upper(), some[:64], some * 2):
        assert local.send("/preferences", {"csrf": wrong, "theme": "dark"}).status == 403
