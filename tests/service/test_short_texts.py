"""Lists show the beginnings of long texts, and hide credentials in linear time whatever somebody wrote."""

from __future__ import annotations

import json
import time

from duetime.engine.redaction import MASK, mask_text
from duetime.service.masking import LONGEST, masked, shortened
from duetime.service.presenters import schedule_shape
from duetime.stores.sqlite.store import SqliteStore
from tests.support.drafts import every
from tests.support.hand import create


def test_a_text_that_was_written_to_be_slow_is_masked_at_once() -> None:
    hostile = ["eyJ-" * 64_000, "-token" * 40_000, "a-" * 128_000, "bearer " * 30_000, '"a":"' * 50_000]
    for text in hostile:
        begun = time.process_time()
        masked(text)
        mask_text(text)
        assert time.process_time() - begun < 1.0


def test_a_token_is_hidden_wherever_it_begins() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
    for before in ("", " ", "token-", "x-api-key-", "(", "a.", "--", "="):
        shown = masked(f"{before}{token} after")
        assert token[:20] not in shown, before
        assert shown.endswith(f"{MASK} after")
        assert token[:20] not in mask_text(f"{before}{token} after")


def test_credentials_in_errors_are_still_hidden() -> None:
    for text, shown in (
        ("see https://ann:pw@host/x", "see https://***@host/x"),
        ('my_api_key = "abc" and x', 'my_api_key = "***" and x'),
        ("X-Signature: abc", "X-Signature: ***"),
    ):
        assert mask_text(text) == shown


def test_long_texts_are_cut_and_say_so() -> None:
    cut = shortened({"a": ["x" * 100_000, 1, None], "b": "short"})
    assert cut["b"] == "short"
    assert cut["a"][1:] == [1, None]
    assert cut["a"][0].startswith("x" * LONGEST)
    assert cut["a"][0].endswith("... (cut: 100000 characters in total)")


def test_one_alone_is_shown_whole() -> None:
    store = SqliteStore(":memory:")
    store.migrate()
    [made] = create(store, every(payload=json.dumps({"args": ["y" * 50_000]})))
    assert schedule_shape(made, "UTC")["payload"] == {"args": ["y" * 50_000]}
    assert len(schedule_shape(made, "UTC", brief=True)["payload"]["args"][0]) < LONGEST + 100
    store.close()
