"""A cache of the meaning of texts that is also bounded in bytes: it keeps few long texts, because one owner can create
many of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_SHORT_LENGTH = 400
"""Maximum length of a text that counts as short; its meaning takes a few thousand bytes at most."""


class TextCache(Generic[T]):
    """A function of a text whose results are cached: `most` of short texts, and `most_long` of all others."""

    def __init__(self, function: Callable[[str], T], most: int, most_long: int) -> None:
        wraps(function)(self)
        self.short = lru_cache(maxsize=most)(function)
        self.long = lru_cache(maxsize=most_long)(function)

    def __call__(self, text: str) -> T:
        return self.short(text) if len(text) <= MAX_SHORT_LENGTH else self.long(text)

    def cache_clear(self) -> None:
        self.short.cache_clear()
        self.long.cache_clear()


def text_cache(most: int, most_long: int) -> Callable[[Callable[[str], T]], TextCache[T]]:
    return lambda function: TextCache(function, most, most_long)
