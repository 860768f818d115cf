"""Patterns in which `*` stands for any characters, and every other character for itself."""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Return whether a whole text matches a pattern. This takes linear time, because agents write patterns too."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    place, end = len(first), len(text) - len(last)
    if place > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:  # the earliest position of each leaves most for those that follow
        start = text.find(part, place, end)
        if start < 0:
            return False
        place = start + len(part)
    return True
