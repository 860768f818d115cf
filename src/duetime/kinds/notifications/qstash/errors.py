"""Errors of QStash, with messages that may be shown."""

from __future__ import annotations

import json

from duetime.net.messages import Answer

AGAIN = "try again in a moment"


class Refused(Exception):
    """Raised if QStash refused a request."""

    def __init__(self, reason: str, *, missing: bool = False, repeated: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        """What was requested does not exist."""
        self.repeated = repeated
        """An earlier attempt got no response, and may have succeeded."""


class Unheard(Exception):
    """Raised if it is unknown whether a request succeeded."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Declined(Exception):
    """Raised for a response that is not a success."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.status = answer.status
        self._headers = answer.headers
        self._said = _error_of(answer.body)

    @property
    def is_passing(self) -> bool:
        return self.status >= 500 or self.status == 408

    @property
    def is_missing(self) -> bool:
        """Whether QStash itself reports something missing, and not another server at a mistyped address."""
        return self._said is not None and (self.status == 404 or "not found" in self._said.lower())

    @property
    def words(self) -> str:
        if self.is_passing:
            return f"QStash answered {self.status}; {AGAIN}"
        if self.status in (401, 403):
            return f"QStash did not accept the token ({self.status}); check notifications.qstash_token"
        if self.status == 429 and "ratelimit-limit" in self._headers:
            return "QStash's messages of this day are used up (429); try again tomorrow, or with a larger plan"
        if self.status == 429:
            return f"QStash is being asked too often (429); {AGAIN}"
        if self._said is None:
            return f"QStash answered {self.status}, and not in its own words; check notifications.qstash_url"
        return f"QStash answered {self.status}: {self._said}"


def _error_of(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = said.get("error") if isinstance(said, dict) else None
    return " ".join(error[:300].split()) if isinstance(error, str) else None
