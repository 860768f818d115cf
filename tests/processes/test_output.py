"""Output without end, kept within bounds."""

from __future__ import annotations

import random

import pytest

from duetime.processes.output import LineBuffer, OutputBuffer


def kept(*pieces: bytes, most: int = 20_000) -> str:
    made = OutputBuffer(most // 2, most // 2)
    for piece in pieces:
        made.add(piece)
    return made.text()


def test_what_fits_is_kept_whole() -> None:
    assert kept() == ""
    assert kept(b"a b", b"", b" c") == "a b c"
    assert kept(b"x" * 10_000, b"y" * 10_000) == "x" * 10_000 + "y" * 10_000


@pytest.mark.parametrize("seed", range(5))
def test_of_the_rest_the_beginning_and_the_end_are_kept(seed: int) -> None:
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(100_000)]
    data = " ".join(words).encode()
    pieces = []
    while data:
        size = chance.choice((1, 100, 5_000, 65_536, 200_000))
        pieces.append(data[:size])
        data = data[size:]
    head, note, tail = kept(*pieces).split("\n")
    assert head.split() == words[: len(head.split())] and tail.split() == words[-len(tail.split()) :]
    left_out = int(note.split()[1])
    assert len(head) + len(tail) <= 20_000 and len(head) + len(tail) + left_out == len(" ".join(words))


@pytest.mark.parametrize("before", range(0, 40, 3))
def test_no_half_of_a_secret_is_kept(before: int) -> None:
    """Where it stands exactly at the cut, on either side."""
    secret = b"0123456789-0123456789-0123456789"
    head = b"a" * (10_000 - 20 - before) + b" " * 20 + secret
    tail = secret + b" " * 20 + b"b" * (10_000 - 20 - before)
    text = kept(head, b" filler" * 10_000, tail).replace(secret.decode(), "***")
    assert "0123" not in text and "6789" not in text


def test_one_endless_word() -> None:
    head, _, tail = kept(b"x" * 100_000).split("\n")
    assert head == tail == "x" * (10_000 - 4096)


def test_lines() -> None:
    lines = LineBuffer(longest=10)
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o\n\nthree") == [b"two", b""]
    assert lines.feed(b"\r\n" + b"x" * 11) == [b"three\r"]
    assert lines.feed(b"still the long one\nfour\n") == [b"four"]
    assert lines.feed(b"five") == [] and lines.rest() == [b"five"]
    assert lines.feed(b" is too long now") == [] and lines.rest() == []
