"""Bounded buffers for the output of a program, which may write forever."""

from __future__ import annotations

import re

from duetime.engine.encoding import TERMINAL_ESCAPES

MOST_KEPT = 1024 * 1024
"""Bytes kept of a stream: half from the beginning, half from the end."""
LONGEST_LINE = 4 * 1024 * 1024
_LONGEST_WORD = 4096
_SPACE = re.compile(rb"\s")


class OutputBuffer:
    """Keeps the beginning and the end of a stream: at most `head` and `tail` bytes."""

    def __init__(self, head: int = MOST_KEPT // 2, tail: int = MOST_KEPT // 2) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        space = self._head_size - len(self._head)
        self._head += data[:space]
        self._tail += data[space:]
        if len(self._tail) > 2 * self._tail_size:  # not each time, because cutting copies the data
            self._cut_tail()

    @property
    def left_out(self) -> int:
        self._cut_tail()
        return self._left_out

    def raw(self) -> bytes:
        """Return what is kept, exactly as it arrived."""
        self._cut_tail()
        return bytes(self._head + self._tail)

    def text(self) -> str:
        """Return what is kept as text, without words that were cut in two."""
        if not self.left_out:
            return _readable(self._head + self._tail)
        head, tail = _whole_words(self._head, self._tail)
        left_out = self._left_out + len(self._head) - len(head) + len(self._tail) - len(tail)
        return f"{_readable(head)}\n[... {left_out} bytes are left out ...]\n{_readable(tail)}"

    def _cut_tail(self) -> None:
        surplus = len(self._tail) - self._tail_size
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus


class LineBuffer:
    """Splits a stream into lines. A line that is too long is left out."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._partial = bytearray()
        self._too_long = False
        self.skipped = False
        """Whether a line was left out."""

    def feed(self, data: bytes) -> list[bytes]:
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            self._extend(piece)
            if not self._too_long:
                lines.append(bytes(self._partial))
            self._partial.clear()
            self._too_long = False
        self._extend(rest)
        return lines

    def rest(self) -> list[bytes]:
        """Return a last line without a line break, if there is one."""
        return [bytes(self._partial)] if self._partial and not self._too_long else []

    def _extend(self, piece: bytes) -> None:
        if self._too_long or len(self._partial) + len(piece) > self._longest:
            self._too_long = self.skipped = True
            self._partial.clear()
        else:
            self._partial += piece


def _whole_words(head: bytearray, tail: bytearray) -> tuple[bytearray, bytearray]:
    """Drop the words that were cut in two, because half of a secret would not be recognized as one."""
    near = head[-_LONGEST_WORD:]
    cut = max(near.rfind(space) for space in b" \t\r\n")
    head = head[: len(head) - len(near) + cut] if cut >= 0 else head[:-_LONGEST_WORD]
    begins = _SPACE.search(tail, 0, _LONGEST_WORD)
    return head, tail[begins.end() if begins else _LONGEST_WORD :]


def _readable(data: bytes | bytearray) -> str:
    return TERMINAL_ESCAPES.sub("", data.decode("utf-8", "replace"))
