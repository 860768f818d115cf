"""The cache of what texts mean."""

from __future__ import annotations

from duetime.engine.policy.completions import ends_plainly
from duetime.engine.policy.options import MOST_LONG, policy_for_ending, policy_from_json
from duetime.engine.text_cache import MAX_SHORT_LENGTH, text_cache
from duetime.engine.triggers.build import trigger_from_json


def test_few_long_texts_are_kept_and_they_displace_no_short_ones() -> None:
    read: list[str] = []

    @text_cache(10, 2)
    def length(text: str) -> int:
        read.append(text[:9])
        return len(text)

    texts = ["short", *(f"{number}".ljust(MAX_SHORT_LENGTH + 1) for number in range(5))]
    assert [length(text) for text in texts] == [5] + [MAX_SHORT_LENGTH + 1] * 5
    assert length.long.cache_info().currsize == 2 and len(read) == 6
    assert length("short") == 5 and length(texts[-1]) == MAX_SHORT_LENGTH + 1 and len(read) == 6
    length.cache_clear()
    assert length("short") == 5 and len(read) == 7


def test_what_owners_write_is_cached_with_a_bound_in_bytes() -> None:
    for cached in (policy_from_json, policy_for_ending, ends_plainly):
        assert cached.long.cache_info().maxsize == MOST_LONG
    assert trigger_from_json.long.cache_info().maxsize == 1000
