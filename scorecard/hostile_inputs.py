"""Requests that are valid in form and made to be expensive, generated from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
ONCE = {"type": "once", "run_at": "in 1 hour"}


class Asked(NamedTuple):
    """A request. `about` says what is expensive about it."""

    about: str
    method: str
    path: str
    body: Any
    raw: bytes | None = None


def inputs(seed: int, count: int) -> Iterator[Asked]:
    """Yield so many requests, each sort in turn."""
    chance = random.Random(seed)
    for number in range(count):
        yield SORTS[number % len(SORTS)](chance)


def _create(about: str, **changes: Any) -> Asked:
    given = {"kind": "job", "name": "n", "trigger": ONCE, "payload": {"task": "noop"}} | changes
    return Asked(about, "POST", "/api/v1/schedules", given)


def _rrule(chance: random.Random) -> Asked:
    trigger = {"type": "rrule", "rrule": _rule(chance)}
    if chance.random() < 0.3:
        return Asked("rrule preview", "POST", "/api/v1/preview", {"trigger": trigger, "count": 100})
    return _create("rrule", trigger=trigger)


def _rule(chance: random.Random) -> str:
    parts = [f"FREQ={chance.choice(FREQUENCIES)}"]
    if chance.random() < 0.7:
        parts.append(f"COUNT={chance.choice([1, 300, 10_000, 99_999, 10**9])}")
    if chance.random() < 0.5:
        parts.append(f"INTERVAL={chance.choice([1, 7, 397, 99_991])}")
    lists = {"BYHOUR": 24, "BYMINUTE": 60, "BYSECOND": 60, "BYMONTHDAY": 31, "BYYEARDAY": 366, "BYWEEKNO": 53}
    for name, size in lists.items():
        if chance.random() < 0.5:
            numbers = range(0 if size in (24, 60) else 1, size + (0 if size in (24, 60) else 1))
            parts.append(f"{name}={','.join(map(str, numbers))}")
    if chance.random() < 0.6:
        parts.append(f"BYSETPOS={chance.choice(['366', '-366', ','.join(map(str, range(1, 367)))])}")
    if chance.random() < 0.2:
        parts.append("BYMONTH=2;BYMONTHDAY=30")
    return ";".join(parts)


def _cron(chance: random.Random) -> Asked:
    fields = [
        chance.choice(["*", "*/7", ",".join(map(str, range(60))), "59", "0-59/1"]),
        chance.choice(["*", "0-23", "3", ",".join(map(str, range(24)))]),
        chance.choice(["*", "31", "29", "L", "1-31"]),
        chance.choice(["*", "2", "FEB", "1-12"]),
        chance.choice(["*", "1#5", "SUN-SAT", "5L"]),
    ]
    zone = chance.choice(["America/Sao_Paulo", "Africa/Casablanca", "Antarctica/Troll", "Asia/Gaza", "Pacific/Apia"])
    trigger = {"type": "cron", "expression": " ".join(fields), "timezone": zone}
    return Asked("cron preview", "POST", "/api/v1/preview", {"trigger": trigger, "count": 100})


def _interval(chance: random.Random) -> Asked:
    trigger = {"type": "interval", "seconds": chance.choice([1, 1e-9, 1e308, 2**62])}
    start = chance.choice(["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
    return _create("interval", trigger={**trigger, "start": start})


def _expression(chance: random.Random) -> Asked:
    depth = chance.choice([10, 200, 3000])
    text = chance.choice(
        [
            " | ".join(["noop()"] * depth),
            "noop(" + "(" * depth + ")" * depth + ")",
            "noop(" + "[" * depth + "]" * depth + ")",
            "noop(" + "-" * depth + "1)",
            f"noop(10 ** {10**depth if depth < 300 else 9})",
            "noop('" + "a" * 50_000 + "')",
            "noop(" + ",".join(f"a{number}=1" for number in range(depth)) + ")",
        ]
    )
    return _create("expression", payload={"task": text})


def _retry_formula(chance: random.Random) -> Asked:
    depth = chance.choice([10, 500, 5000])
    delay = chance.choice(["(" * depth + "1" + ")" * depth, "pow(10, retried)" * 40, "1+" * depth + "1", "9" * depth])
    headers = {"url": "https://example.org/", "retry_delay": delay}
    return _create("retry formula", kind="request", payload=headers)


def _credentials(chance: random.Random) -> Asked:
    """Return a request with a text on which a careless pattern for credentials backtracks."""
    text = chance.choice(["eyJ-", "Bearer ", "password=", "://", "a:b@", "sk-", '{"token":"', "\\", "=&", "%25"])
    return _create("credentials", payload={"task": "keep", "args": [text * (200_000 // len(text))]})


def _list(chance: random.Random) -> Asked:
    query = chance.choice(
        [
            "limit=1000",
            "limit=1000&text=" + "%25" * 300,
            "text=" + "_" * 1000,
            "limit=1000&status=all&kind=job",
            "cursor=" + "A" * 4000,
        ]
    )
    return Asked("list", "GET", f"/api/v1/{chance.choice(['schedules', 'runs'])}?{query}", None)


def _json(chance: random.Random) -> Asked:
    depth = chance.choice([1_000, 100_000, 1_000_000])
    raw = chance.choice(
        [
            b"[" * depth + b"]" * depth,
            b'{"a":' * (depth // 5) + b"1" + b"}" * (depth // 5),
            b"9" * depth,
            b"[" + b"1," * (depth // 2) + b"1]",
            b'"' + b"\\u0041" * (depth // 6) + b'"',
            b"{" + b",".join(b'"%d":0' % number for number in range(depth // 10)) + b"}",
        ]
    )
    return Asked("json", "POST", "/api/v1/schedules", None, raw)


def _ids(chance: random.Random) -> Asked:
    count = chance.choice([1_001, 50_000, 200_000])
    ids = [f"msg_{number:032x}" for number in range(count)]
    path = chance.choice(["/v2/messages", "/v2/dlq", "/v2/dlq/retry"])
    method = "POST" if path.endswith("retry") else "DELETE"
    return Asked("ids", method, path, {"dlqIds" if "dlq" in path else "messageIds": ids})


def _time(chance: random.Random) -> Asked:
    text = chance.choice(
        ["in " + "9" * 4000 + " hours", "tomorrow " * 3000, "1" * 100_000, "  \t" * 20_000, "½" * 9000]
    )
    return _create("time", trigger={"type": "once", "run_at": text})


def _batch(chance: random.Random) -> Asked:
    messages = [{"destination": "https://example.org/", "body": "x"} for _ in range(chance.choice([101, 5_000]))]
    return Asked("batch", "POST", "/v2/batch", None, json.dumps(messages).encode())


SORTS: tuple[Callable[[random.Random], Asked], ...] = (
    _rrule,
    _cron,
    _credentials,
    _expression,
    _json,
    _ids,
    _list,
    _interval,
    _retry_formula,
    _time,
    _batch,
)
