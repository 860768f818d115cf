"""What a server publishes for other processes, in every store."""

from __future__ import annotations

from tests.stores.conftest import Opener


def test_every_process_reads_what_was_published_last(opener: Opener) -> None:
    here, there = opener(), opener()
    here.migrate()
    assert there.published() is None
    here.publish('{"zone": "UTC"}')
    assert there.published() == '{"zone": "UTC"}'
    there.publish('{"zone": "Asia/Tokyo"}')
    assert here.published() == '{"zone": "Asia/Tokyo"}'
