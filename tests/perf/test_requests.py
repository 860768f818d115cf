"""SQL statements that a request over HTTP costs: counted, whatever the load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.instructions import statements_in
from tests.support.api import Client, serving_api

PAGE = 5


def _create(client: Client) -> None:
    client.job()


def _list(client: Client) -> None:
    assert len(client.get("/schedules", limit=PAGE)["schedules"]) == PAGE


def _cancel(client: Client) -> None:
    client.post(f"/schedules/{client.ids(limit=1, status='pending')[0]}/cancel")


LISTED_BY_CANCEL = 2
BOUNDS: dict[Callable[[Client], None], int] = {_create: 8, _list: 2, _cancel: 9 + LISTED_BY_CANCEL}


@pytest.mark.parametrize("request_", BOUNDS, ids=lambda each: each.__name__)
def test_a_request_costs_no_more_statements_than_before(request_: Callable[[Client], None], tmp_path: Path) -> None:
    counts = Counter[str]()
    with statements_in(counts), serving_api(tmp_path, url=str(tmp_path / "store.db")) as api:
        client = api.client()
        for _ in range(PAGE + 1):
            client.job()
        request_(client)
        counts.clear()
        request_(client)
        cost: dict[str, Any] = {text: number for text, number in counts.items() if "revoc" not in text}
    assert sum(cost.values()) <= BOUNDS[request_], cost
