"""Random values for fuzzing, reproducible from a seed: texts, numbers and JSON that programs tend to trip over."""

from __future__ import annotations

import json
import random
from typing import Any

TEXTS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\u202e\u2066\ufeff\u0007\x1b[31m",
    "' OR 1=1; DROP TABLE schedules; --",
    "../../../../etc/passwd",
    "%s%n${jndi:ldap://127.0.0.1}{{7*7}}{0.__class__}",
    "<script>alert(1)</script>",
    "NaN",
    "-1",
    "null",
    "é" * 300,
    "x" * 5000,
    "*/5 * * * *",
    "FREQ=DAILY",
    "in 2 hours",
    "2026-13-45T99:99:99Z",
    "Europe/Berlin",
    "job_1_1",
    "scd_0",
    "https://127.0.0.1/",
    "--help",
    "-",
    "\ud7ff\ue000",
)
NUMBERS = (0, -1, 1, 1.5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 1e308, -1e308, 1e-320)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": {"": []}}, [None], ["x"], {"a": 1})


class Values:
    """Draws values from one source of randomness."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def text(self) -> str:
        if self.chance.random() < 0.7:
            return self.chance.choice(TEXTS)
        letters = [
            chr(self.chance.choice((self.chance.randrange(32, 127), self.chance.randrange(0xD800)))) for _ in range(12)
        ]
        return "".join(letters)

    def value(self, depth: int = 2) -> Any:
        sort = self.chance.random()
        if sort < 0.5:
            return self.text()
        if sort < 0.7:
            return self.chance.choice(NUMBERS)
        if sort < 0.85 or not depth:
            return self.chance.choice(OTHERS)
        if sort < 0.92:
            return [self.value(depth - 1) for _ in range(self.chance.randrange(4))]
        return {self.text(): self.value(depth - 1) for _ in range(self.chance.randrange(4))}

    def mutated(self, good: Any) -> Any:
        """Return a copy of a good value in which some parts are replaced, removed or added."""
        if isinstance(good, dict):
            changed = {name: self.mutated(each) for name, each in good.items() if self.chance.random() > 0.1}
            if self.chance.random() < 0.15:
                changed[self.text()] = self.value()
            return changed
        return self.value() if self.chance.random() < 0.3 else good

    def broken_json(self, good: Any) -> bytes:
        """Return JSON text with some bytes replaced, removed or repeated."""
        data = bytearray(json.dumps(good).encode())
        for _ in range(self.chance.randrange(1, 4)):
            place = self.chance.randrange(len(data) or 1)
            data[place : place + self.chance.randrange(3)] = self.chance.randbytes(self.chance.randrange(3))
        return bytes(data)
