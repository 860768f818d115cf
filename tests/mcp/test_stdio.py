"""The two ends of MCP over stdin and stdout: lines that are read, and messages that a slow client must not lose."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Iterator

import pytest

from duetime.mcp import stdio


@pytest.fixture
def pipe() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w", newline="\n") as writer:
        yield reader, writer


def test_a_client_that_does_not_read_holds_nothing_up_and_loses_nothing(
    pipe: tuple[io.TextIOWrapper, io.TextIOWrapper],
) -> None:
    read, write = pipe
    messages = [f"{number} {'x' * (100_000 if number == 700 else 300)}\n" for number in range(1000)]
    wrote_all, got = threading.Event(), list[str]()

    async def write_all() -> None:
        output = stdio._Output(write)
        for message in messages:
            await output.write(message)
            await output.flush()
        wrote_all.set()

    async def serve() -> None:
        writing = asyncio.ensure_future(write_all())
        full = 65_536 // len(messages[0]) + 1
        for _ in range(10 * full):  # the event loop runs on while the pipe is full
            await asyncio.sleep(0)
        assert not writing.done()
        reading = threading.Thread(target=lambda: got.extend(read.readline() for _ in messages))
        reading.start()
        await writing
        await asyncio.to_thread(reading.join)

    asyncio.run(serve())
    assert wrote_all.is_set()
    assert got == messages


def test_lines_are_read_until_the_end_and_blank_ones_are_skipped(
    pipe: tuple[io.TextIOWrapper, io.TextIOWrapper],
) -> None:
    read, write = pipe
    sent = [f"line {number}\n" for number in range(3 * stdio.WAITING)]

    async def read_all() -> list[str]:
        lines = stdio._Lines(read)
        found = [line async for line in lines]
        assert lines.latest == sent[-1]
        return found

    def send_all() -> None:
        write.write("\n".join([*sent, ""]))
        write.close()

    sending = threading.Thread(target=send_all)
    sending.start()
    assert asyncio.run(read_all()) == sent
    sending.join()
