"""Marks of messages: every interface lists, marks, dismisses and restores them; unread is counted for each owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from duetime import Duetime, DuetimeError
from duetime.engine.clock import Instant
from duetime.engine.encoding import encode_whole
from duetime.engine.errors import Refused
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import RunId, RunStatus
from duetime.engine.policy.decision import Change, Decision
from duetime.engine.policy.rows import Writes
from duetime.engine.validation import NewSchedule
from duetime.service.operations import inbox
from duetime.service.services import Call, Services
from tests.support.agent import Agent
from tests.support.cli import Cli
from tests.support.web import Site, site


@pytest.fixture(params=["sqlite", "postgres"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    db = request.getfixturevalue("clean_postgres_url") if request.param == "postgres" else ""
    with site(tmp_path, db=db) as made:
        yield made


def arrived(there: Site, number: int, owner: str = LOCAL) -> list[RunId]:
    """Make messages that have arrived, without a worker."""
    scheduler, store = there.room.scheduler, there.room.store

    def decide(change: Change, run: Any) -> Decision[Any]:
        kept = encode_whole({"topic": "builds", "message": f"Build {run.id}"})
        ended = run._replace(status=RunStatus.COMPLETED, finished=Instant(scheduler.clock.now()), result=kept)
        return Writes(runs={run.id: ended}), ended

    payload = {"message": "Build", "topic": "builds"}
    new = NewSchedule("notification", "build", "cron", {"expression": "0 9 * * *"}, payload, {"overlap": "allow"})
    made = scheduler.create(Caller(owner), new)
    ids = []
    for _ in range(number):
        run = scheduler.run_now(Caller(owner), made.definition.public_id)
        store.change_run(run.id, scheduler.clock.now(), decide)
        ids.append(run.id)
    return ids


def shown(services: Services, caller: Caller, show: inbox.Show) -> list[int]:
    page = inbox.inbox(Call(services, caller, "UTC"), inbox.ListInbox(show=show)).value
    return [run.id for run in page.items]


def test_what_is_unread_is_exact_for_each_owner(there: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs others have; only among one's own, very old messages count as read."""
    monkeypatch.setattr(inbox, "LATELY", 3)
    services, ada, bob = there.room.services, Caller("ada"), Caller("bob", operator=True)
    for_ada, for_bob = Call(services, ada, "UTC"), Call(services, bob, "UTC")
    [first] = arrived(there, 1, "ada")
    arrived(there, 12, "bob")
    assert (inbox.unread_count(for_ada), inbox.unread_count(for_bob)) == (1, 3)
    assert shown(services, ada, "unread") == [first]
    assert len(shown(services, bob, "kept")) == 13, "an operator lists all"
    theirs = inbox.MarkMessages(ids=[first], mark="dismiss")
    assert inbox.mark_messages(for_bob, theirs).value == 0, "those of others are not marked"
    everything = inbox.MarkMessages(everything=True)
    assert inbox.mark_messages(for_bob, everything).value == 3 and inbox.unread_count(for_bob) == 0
    for request in (everything, theirs):
        with pytest.raises(Refused, match="agent's run"):
            inbox.mark_messages(for_ada._replace(caller=ada._replace(depth=1)), request)
    assert inbox.unread_count(for_ada) == 1


def test_every_interface_marks_and_lists_by_mark(there: Site, cli: Cli) -> None:
    first, second, third = arrived(there, 3)
    db = there.room.settings.db

    def http(method: str, path: str, body: Any = None, status: int = 200) -> Any:
        headers = {**there.bearer(LOCAL), "Content-Type": "application/json"}
        reply = there.ask(method, f"/api/v1{path}", headers, None if body is None else json.dumps(body).encode())
        assert reply.status == status, reply.body
        return json.loads(reply.body)

    def marks(document: Any) -> dict[int, str]:
        return {each["run_id"]: each["mark"] for each in document["messages"]}

    assert marks(http("GET", "/inbox")) == dict.fromkeys((first, second, third), "unread")
    assert http("POST", "/inbox/read", {"ids": [first, 10**12]}) == {"marked": 1}
    assert http("POST", "/inbox/dismiss", {"ids": [first]}) == {"marked": 1}
    assert marks(http("GET", "/inbox?show=dismissed")) == {first: "dismissed"}
    for path, body in {"dismiss": {"all": True}, "read": {}, "restore": {"ids": []}, "burn": {"ids": [first]}}.items():
        http("POST", f"/inbox/{path}", body, 422)

    listed = cli("inbox", "--db", db).out
    assert f"{third}*" in listed and f"Build {first}\n" not in listed
    assert cli("inbox", "restore", str(first), "--db", db).out == "1 message restored.\n"
    assert marks(cli("inbox", "--json", "--db", db).document)[first] == "read"
    assert cli("inbox", "dismiss", str(second), "--db", db, "--json").document == {"marked": 1}
    assert set(marks(cli("inbox", "--unread", "--json", "--db", db).document)) == {third}
    assert cli("inbox", "read", "--all", "--db", db).out == "1 message marked as read.\n"
    refused = cli("inbox", "read", "987654", "--db", db)
    assert refused.code == 4 and "you have no such message" in refused.err
    for wrong in (("burn", "1"), ("read",), ("dismiss", "--all"), ("list", "7"), ("read", "x")):
        assert cli("inbox", *wrong, "--db", db).code == 2, wrong
    assert "the numbers of the messages to dismiss" in cli("inbox", "dismiss", "--all", "--db", db).err

    with closing(Duetime(settings=there.room.settings)) as duetime:
        assert [each.run_id for each in duetime.inbox.messages(show="dismissed")] == [second]
        assert duetime.inbox.mark([second], "restore") == 1 and duetime.inbox.messages(show="dismissed") == []
        assert (duetime.inbox.mark_all_read(), duetime.inbox.messages(show="unread")) == (0, [])
        with pytest.raises(DuetimeError, match="must be one of read, resolve, reopen"):
            duetime.inbox.mark([second], "dismissed")  # type: ignore[arg-type]
        with pytest.raises(DuetimeError, match="must be one of kept, unread, dismissed"):
            duetime.inbox.messages(show="unred")  # type: ignore[arg-type]
        assert {each.mark for each in duetime.inbox.messages("builds")} == {"read"}

    check_marks_over_mcp(there, first, second)


def check_marks_over_mcp(there: Site, first: RunId, second: RunId) -> None:
    services = there.room.services
    agent = Agent(services, Caller(LOCAL), "UTC")
    assert agent.knows("mark_runs", run_ids=[first, second, first], mark="dismiss") == {"marked": 2}
    assert set(shown(services, Caller(LOCAL), "dismissed")) == {first, second}
    assert agent.knows("mark_runs", run_ids=[first], mark="restore") == {"marked": 1}
    assert agent.knows("mark_runs", run_ids=[first], mark="read") == {"marked": 1}
    assert agent.knows("mark_runs", run_ids=[first, 987654], mark="dismiss") == {"error": "Run not found: 987654"}
    for wrong in ([True], [{"run_id": first}], [], [first] * 101):
        assert "whole numbers" in agent.knows("mark_runs", run_ids=wrong, mark="dismiss")["error"]
    stranger = Agent(services, Caller("bob"), "UTC")
    assert stranger.knows("mark_runs", run_ids=[first], mark="dismiss") == {"error": f"Run not found: {first}"}
    nested = Agent(services, Caller(LOCAL, depth=1), "UTC")
    assert "agent's run" in nested.knows("mark_runs", run_ids=[first], mark="dismiss")["error"]
    assert shown(services, Caller(LOCAL), "dismissed") == [second]
