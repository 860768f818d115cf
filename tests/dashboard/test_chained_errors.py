"""The page of a failed run shows every exception of a chain with its message, and how often a recursion repeated."""

from __future__ import annotations

from duetime.engine.store import RunQuery
from duetime.kinds.jobs.registry import Task
from tests.support.browsing import made, signed_in, words, working
from tests.support.web import Reply, Site
from tests.support.workers import eventually


def check(depth: int, amount: int) -> None:
    if depth:
        check(depth - 1, amount)
    raise ValueError(f"amount {amount} exceeds the limit of <b>100000</b>")


def charge(amount: int) -> None:
    """Charge an invoice."""
    try:
        check(40, amount)
    except ValueError as error:
        raise RuntimeError("the charge failed") from error


def test_a_failed_run_shows_what_caused_its_error(served: Site) -> None:
    served.room.registry.add(Task(charge, name="charge"))
    once = ("once", {"run_at": "now"})
    with working(served):
        made(served, "Charge", once, payload={"task": "charge", "args": [129900]}, policy={"max_attempts": 1})
        eventually(lambda: served.room.store.runs(RunQuery(status="dead")).items, 20, "it failed")
    [run] = served.room.store.runs(RunQuery(status="dead")).items
    page = signed_in(served).get(f"/runs/{run.id}").body
    before_the_text = words(Reply(200, {}, page.partition(b'id="traceback-details"')[0]))
    error = before_the_text.partition("RuntimeError: the charge failed")[2]
    assert "in charge raise RuntimeError" in error.partition("Caused by")[0]
    cause = error.partition("Caused by")[2]
    assert cause.lstrip().startswith("ValueError: amount 129900 exceeds the limit of <b>100000</b>")
    assert "in check repeated 37 more times" in cause
    assert "Full traceback (43 frames)" in words(Reply(200, {}, page))
