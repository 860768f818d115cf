"""Tasks that write: with print and with loggers, in threads, on the event loop and in processes."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import threading
from contextlib import suppress

from duetime.kinds.jobs.context import TaskContext
from duetime.kinds.jobs.registry import Registry

registry = Registry()
log = logging.getLogger("shop")
gate = threading.Event()
"""Lets tasks that wait go on."""
arrived = threading.Semaphore(0)
"""Counts the tasks that wait."""


@registry.task
def say(text: str = "hello") -> str:
    print(text)
    log.warning("about %s", text)
    return "said"


class CardFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = str(record.msg).replace("4111111111111111", "****")
        return "heartbeat" not in record.msg


class PrintingHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print("printed:", record.getMessage())


@registry.task
def pay() -> None:
    """Log with a filter that masks and drops, and a handler that prints, as a module of a shop sets them up."""
    shop, mask, handler = logging.getLogger("shop.cards"), CardFilter(), PrintingHandler()
    shop.addFilter(mask)
    shop.addHandler(handler)
    try:
        shop.warning("paid with 4111111111111111")
        shop.warning("heartbeat")
        print("done")
    finally:
        shop.removeFilter(mask)
        shop.removeHandler(handler)


@registry.task
def say_nothing() -> None: ...


@registry.task
async def say_in_turns(text: str, times: int = 3) -> None:
    for number in range(times):
        print(f"{text} {number}")
        await asyncio.sleep(0)
    await asyncio.to_thread(print, f"{text} from a thread")


@registry.task
def say_and_wait(context: TaskContext, text: str) -> None:
    print(f"{text}, before")
    arrived.release()
    while not gate.wait(0.02) and not context.cancelled.is_set():
        pass
    print(f"{text}, after")


@registry.task
def write_and_wait(number: int) -> None:
    for each in range(300):
        sys.stdout.write(f"{number}: line {each} with a key and some more words, so that it is longer\n")
    arrived.release()
    gate.wait(60)


@registry.task
def write_much(megabytes: int = 100) -> None:
    line = "x" * 999 + "\n"
    for _ in range(megabytes):
        sys.stdout.write(line * 1000)


@registry.task
def write_lines(number: int = 10_000) -> None:
    for each in range(number):
        log.warning("line %s of %s", each, number)


@registry.task
def write_binary() -> None:
    noise = random.Random(7).randbytes(20_000)
    sys.stdout.buffer.write(noise)
    print("\n\x1b[31mred\x1b[0m\x07")


@registry.task
def show_secret(password: str) -> None:
    print("connecting with pass", end="")
    print(f"word={password}")
    sys.stderr.write(password[:5])
    sys.stderr.write(password[5:] + "\n")


@registry.task
def stumble() -> None:
    with suppress(ZeroDivisionError):
        try:
            print(1 / 0)
        except ZeroDivisionError:
            log.exception("it went wrong")
            raise


@registry.task
def fail_twice(context: TaskContext) -> None:
    print(f"this is attempt {context.attempt}")
    if context.attempt < 3:
        raise ValueError("not yet")


@registry.task(isolation="process")
def say_in_a_process() -> None:
    print("printed")
    log.info("noted")
    log.warning("warned")
    os.system("echo from a shell")  # noqa: S605


@registry.task(isolation="process")
def die_in_mid_line() -> None:
    print("a whole line")
    sys.stdout.write("half a li")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
