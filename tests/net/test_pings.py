"""Monitoring addresses that are called when a run starts, succeeds and fails, with a real receiver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from duetime import Duetime, InvalidInput, Registry, Settings
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.policy.rows import RunEvent
from duetime.engine.store import RunQuery
from duetime.engine.validation import Changes, NewSchedule
from duetime.net import pings
from duetime.net.pings import Pings
from duetime.service.presenters import policy_shape
from tests.support.receiver import Behaviour, Fault, Receiver

FAR = {"run_at": "2099-01-01T00:00:00Z"}
AGENT = Caller(LOCAL, depth=1)
registry = Registry()


@registry.task
def work() -> str:
    return "done"


@registry.task
def fail() -> None:
    raise RuntimeError("broken")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def duetime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Duetime]:
    url = str(tmp_path / "pings.db") if request.param == "sqlite" else request.getfixturevalue("clean_postgres_url")
    with Duetime(settings=Settings(db=url, allowed_hosts=("127.0.0.1",)), registry=registry) as running:
        yield running


def paths(receiver: Receiver, number: int) -> list[str]:
    return [request.target for request in receiver.wait_for(number)]


def test_a_run_calls_at_its_start_and_at_its_success(duetime: Duetime, receiver: Receiver) -> None:
    duetime.schedule(work, delay=0.001, ping=f"{receiver.url}/check/5f2c?key=1")
    assert paths(receiver, 2) == ["/check/5f2c/start?key=1", "/check/5f2c?key=1"]
    assert {request.method for request in receiver.wait_for(2)} == {"GET"}


def test_a_failure_is_called_when_no_attempt_is_left(duetime: Duetime, receiver: Receiver) -> None:
    duetime.schedule(fail, delay=0.001, ping=f"{receiver.url}/check/", max_attempts=2, backoff=0.01)
    assert paths(receiver, 3) == ["/check/start", "/check/start", "/check/fail"]


def test_silent_addresses_delay_no_other(duetime: Duetime, receiver: Receiver) -> None:
    receiver.behave = lambda request: Behaviour(fault=Fault.SILENCE)
    for number in range(2 * pings._SLOW_THREADS):
        pings_of(duetime)._slow.add(f"{receiver.url}/silent/{number}")  # as after a first call
        duetime.schedule(work, delay=0.001, ping=f"{receiver.url}/silent/{number}")
    receiver.wait_for(pings._SLOW_THREADS)
    with Receiver() as other:
        duetime.schedule(work, delay=0.001, ping=f"{other.url}/healthy")
        assert len(other.wait_for(2)) == 2
        assert len(receiver.requests) == pings._SLOW_THREADS  # the first calls still wait for an answer


def pings_of(duetime: Duetime) -> Pings:
    observer = duetime.app.store.observer
    assert isinstance(observer, Pings)
    return observer


def test_closing_waits_for_one_call_at_most_and_names_what_was_not_sent(
    duetime: Duetime, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pings, "_TIMEOUT", 2.0)
    duetime.schedule(work, delay=0.001, ping=f"{receiver.url}/silent").wait()
    [run] = duetime.app.store.runs(RunQuery()).items
    schedule = duetime.app.store.get(run.schedule)
    assert schedule is not None
    receiver.wait_for(2)
    receiver.behave = lambda request: Behaviour(fault=Fault.SILENCE)
    with lines_of_log() as lines:
        sender = Pings(("127.0.0.1",))
        sender([RunEvent(schedule.definition, run)] * 3)
        began = duetime.app.clock.monotonic()
        sender.close()
        assert duetime.app.clock.monotonic() - began < 2 * pings._TIMEOUT
        shown = [lines.get(timeout=30) for _ in range(2)]
    assert any("was not sent, because this process ends" in line for line in shown), shown


class Lines(logging.Handler):
    """Log lines, each of which can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Queue[str] = Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.put(record.getMessage())


@contextmanager
def lines_of_log() -> Iterator[Queue[str]]:
    log, lines = logging.getLogger("duetime.ping"), Lines()
    log.addHandler(lines)
    try:
        yield lines.lines
    finally:
        log.removeHandler(lines)


def test_an_address_of_this_machine_needs_to_be_allowed(tmp_path: Path, receiver: Receiver) -> None:
    with lines_of_log() as lines, Duetime(settings=Settings(db=str(tmp_path / "d.db")), registry=registry) as duetime:
        duetime.schedule(work, delay=0.001, ping=f"{receiver.url}/check?token=s3cr3t")
        line = lines.get(timeout=30)
    assert receiver.connections == 0
    assert "only public hosts may be called" in line
    assert "s3cr3t" not in line


def test_a_run_of_an_agent_can_neither_set_change_nor_remove_it(duetime: Duetime) -> None:
    ping = {"ping": "https://hc.example/1"}
    new = NewSchedule("job", "work", "once", FAR, {"task": "work"}, ping)
    with pytest.raises(InvalidInput, match="ping: only a person may set it"):
        duetime.scheduler.create(AGENT, new)
    made = duetime.scheduler.create(Caller(LOCAL), new)
    id = made.definition.public_id
    for changed in ("https://hc.example/2", None):
        with pytest.raises(InvalidInput, match="ping: an agent's run may only narrow"):
            duetime.scheduler.edit(AGENT, id, Changes(policy={"ping": changed}))
    duetime.scheduler.edit(AGENT, id, Changes(policy={"ping": "https://hc.example/1"}))


def test_credentials_in_an_address_are_hidden_and_kept(duetime: Duetime) -> None:
    secret = "https://hc.example/1?token=s3cr3t"
    new = NewSchedule("job", "work", "once", FAR, {"task": "work"}, {"ping": secret})
    made = duetime.scheduler.create(Caller(LOCAL), new)
    definition = made.definition
    shown = (policy_shape(definition.policy) or {})["ping"]
    assert shown == "https://hc.example/1?token=***"
    duetime.scheduler.edit(Caller(LOCAL), definition.public_id, Changes(policy={"ping": shown}))
    stored = duetime.scheduler.find(Caller(LOCAL), definition.public_id)
    assert stored is not None
    assert secret in stored.definition.policy


@pytest.mark.parametrize(
    "address",
    ["ftp://example.org", "https://", "https://a b", "https://me:pw@example.org", "x", "http://a:b/", "http://[::1"],
)
def test_only_addresses_that_can_be_called_are_accepted(duetime: Duetime, address: str) -> None:
    with pytest.raises(InvalidInput, match=r"ping: .*such as https://example\.org/status"):
        duetime.schedule(work, delay="1h", ping=address)


def test_a_hidden_value_is_not_accepted_as_a_new_one(duetime: Duetime) -> None:
    with pytest.raises(InvalidInput, match="stands for a hidden value; give the whole address"):
        duetime.schedule(work, delay="1h", ping="https://hc.example/1?token=***")
