"""The result of one check of `duetime doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    status: Literal["ok", "warn", "fail"]
    subject: str
    message: str
