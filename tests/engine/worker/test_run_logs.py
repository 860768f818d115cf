"""Logs in memory: bounded, in whole lines, without control characters and credentials."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from duetime.engine.clock import SystemClock
from duetime.engine.model import RunId, WorkerId
from duetime.engine.redaction import redacted
from duetime.engine.store_interfaces import LogChange, LogPart
from duetime.engine.worker.run_logs import LONGEST_PART, AttemptLog, FreshText, RunLogs
from duetime.engine.worker.runner import ClaimedRun
from tests.support.jobs import make_work

MOST = 64 * 1024
SECRET = "hunter2-and-more"


def claimed(**arguments: Any) -> ClaimedRun:
    return ClaimedRun(make_work("report", **arguments).claim, WorkerId(1))


class Kept:
    """A store of one log: it keeps what a real one keeps."""

    def __init__(self) -> None:
        self.parts: dict[int, LogPart] = {}
        self.calls = 0

    def write_logs(self, changes: Sequence[LogChange]) -> None:
        self.calls += 1
        for parts, dropped_from, dropped_to in changes:
            for number in [each for each in self.parts if dropped_from <= each < dropped_to]:
                del self.parts[number]
            self.parts |= {each.part: each for each in parts}

    def logs(self, run: RunId, after: tuple[int, int], limit: int) -> list[LogPart]:
        return [self.parts[number] for number in sorted(self.parts)]

    @property
    def text(self) -> str:
        return "".join(self.parts[number].text for number in sorted(self.parts))

    @property
    def size(self) -> int:
        return len(self.text.encode())

    def left_out(self) -> int:
        end, missing = 0, 0
        for number in sorted(self.parts):
            missing += number - end
            end = self.parts[number].end
        return missing


def kept(*texts: str, most: int = MOST, every: int = 0, **arguments: str) -> Kept:
    """Write texts, and store after each `every` of them."""
    store, logs, item = Kept(), RunLogs(most, SystemClock()), claimed(**arguments)
    for number, text in enumerate(texts, 1):
        logs.write(item, text)
        if every and number % every == 0:
            logs.store_live(store, {item.id: item})
    logs.finish(item)
    logs.store_ended(store, [item])
    assert not logs.open
    return store


def test_a_short_log_is_kept_as_it_is() -> None:
    assert kept("one\n", "tw", "o\nthree").text == "one\ntwo\nthree\n"
    assert kept("one\n", "tw", "o\nthree", every=1).text == "one\ntwo\nthree\n"


def test_a_run_that_writes_nothing_has_no_log() -> None:
    logs, store, item = RunLogs(MOST, SystemClock()), Kept(), claimed()
    logs.finish(item)
    logs.store_ended(store, [item])
    assert (store.calls, logs.open) == (0, {})


@pytest.mark.parametrize("every", [0, 100, 1000])
def test_of_a_long_log_the_beginning_and_the_end_are_kept(every: int) -> None:
    lines = [f"line {number} {'x' * (number % 90)}\n" for number in range(20_000)]
    store = kept(*lines, every=every)
    assert store.size <= MOST
    assert store.size > MOST * 0.8
    first, last = store.text.splitlines()[0], store.text.splitlines()[-1]
    assert (first + "\n", last + "\n") == (lines[0], lines[-1])
    assert store.left_out() + store.size == sum(map(len, lines))
    assert all(f"{line}\n" in lines for line in store.text.splitlines())


def test_a_hundred_megabytes_are_bounded_in_memory_and_in_the_store() -> None:
    piece = ("y" * 99 + "\n") * 10_000
    log = AttemptLog(claimed(), MOST, SystemClock())
    for _ in range(100):
        log.write(piece)
    log.digest(is_over=True)
    change = log.changes()
    assert change is not None
    sizes = [len(part.text) for part in change.parts]
    assert 50_000 < sum(sizes) <= MOST
    assert change.parts[-1].end == 100 * len(piece)


def test_a_line_without_an_end_is_bounded() -> None:
    text = kept("z" * 10_000_000, "z" * 1000).text
    assert text.startswith("z" * LONGEST_PART) and "left out" in text and len(text) < 2 * LONGEST_PART
    text = kept(*["z" * 5000] * 100, "\nnext\n", every=1).text
    assert text.splitlines()[-1] == "next" and len(text) < 2 * LONGEST_PART


def test_binary_output_and_escapes_are_neutralised() -> None:
    noise = random.Random(1).randbytes(50_000).decode("utf-8", "replace")
    text = kept(noise, "\n", "\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07 \u202eright\n").text
    assert not any(ord(each) < 32 and each not in "\n\t" for each in text)
    assert text.splitlines()[-1] == "red bell\ufffd \ufffdright"


def test_progress_that_overwrites_itself_is_its_last_state() -> None:
    assert kept("10 %\r", "50 %\r", "100 %\r\n", "done\r\n").text == "100 %\ndone\n"


@pytest.mark.parametrize("every", [0, 1])
def test_a_credential_is_masked_although_it_is_written_in_pieces(every: int) -> None:
    pieces = ["the pass", "word is hunter2-", "and-more, take it\n", "Authorization: Bea", "rer abc.def\n"]
    text = kept(*pieces, every=every, password=SECRET).text
    assert SECRET not in text and "hunter2" not in text and "abc.def" not in text
    assert "***" in text


@pytest.mark.parametrize(
    "text",
    ['password="first\nsecond\nthird" and more\n', "password:\n\n\nthird\n", "began\nsig='a\nb\nthird\nd'\nended\n"],
)
def test_a_credential_of_several_lines_is_masked_as_in_a_result(text: str) -> None:
    assert kept(text).text == redacted(text) and "third" not in kept(text).text


def test_a_credential_at_a_cut_is_not_kept_in_half() -> None:
    for shift in range(0, 40):
        filler = "a" * (MOST // 2 - 10 - shift)
        store = kept(f"{filler} {SECRET} ", "b" * MOST, f"{SECRET}\n", password=SECRET)
        assert "hunter2" not in store.text and "and-more" not in store.text


def test_the_rest_of_a_long_line_is_left_out_and_the_next_line_is_kept() -> None:
    """However the text arrives: a flood between two looks may begin and end within a line."""
    cut = kept("x" * 100_000 + " " + SECRET[:7], SECRET[7:] + " rest\nnext\n", every=1, password=SECRET).text
    assert SECRET[7:] not in cut and cut.endswith("\nnext\n")
    text = kept("z" * 20_000, "z" * 50_000 + "\n" + "a line\n" * 2, "kept\n", every=1).text
    assert text.endswith(" [the rest of this line is left out]\na line\na line\nkept\n")


def test_characters_of_several_bytes_count_as_bytes() -> None:
    store = kept(*["é" * 50 + "\n"] * 5000)
    assert store.size <= MOST


def test_arrivals_keep_beginning_and_end() -> None:
    arrivals = FreshText(5)
    for text in ("abc", "defgh", "ijklmnop", "q"):
        arrivals.add(text)
    first, missing, last = arrivals.take()
    assert first == "abcde" and last.endswith("mnopq")
    assert len(first) + missing + len(last) == 17
    assert arrivals.take() == ("", 0, "")


def test_what_is_left_behind_by_a_run_no_longer_writes() -> None:
    logs, item = RunLogs(MOST, SystemClock()), claimed()
    item.over = True
    logs.write(item, "late\n")
    assert logs.open == {}


def test_a_store_that_is_away_loses_nothing_and_a_broken_one_stops_nothing() -> None:
    class Away(Kept):
        error: Exception | None = ConnectionError("away")

        def write_logs(self, changes: Sequence[LogChange]) -> None:
            if self.error is not None:
                raise self.error
            super().write_logs(changes)

    from duetime.engine.errors import StoreUnavailable

    store, logs, item = Away(), RunLogs(MOST, SystemClock()), claimed()
    store.error = StoreUnavailable("away")
    logs.write(item, "one\n")
    logs.store_live(store, {item.id: item})
    logs.write(item, "two\n")
    logs.store_ended(store, [item])
    store.error = None
    logs.store_live(store, {})
    assert (store.text, logs.open) == ("one\ntwo\n", {})
    store.error = ValueError("no")
    logs.write(item, "three\n")
    logs.store_ended(store, [item])
    assert logs.open == {}
