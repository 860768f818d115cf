"""Exceptions of the Python API: their classes, codes and fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import duetime as package
from duetime import (
    Conflict,
    Duetime,
    DuetimeError,
    InvalidInput,
    LimitReached,
    NotFound,
    Refused,
    Settings,
    StoreUnavailable,
    task,
)
from duetime.service.errors import ERRORS, error_class, refuse

EXPORTED = (Conflict, DuetimeError, InvalidInput, LimitReached, NotFound, Refused, StoreUnavailable)


@task(name="sweep_for_errors")
def sweep(days: int = 1) -> None:
    """Delete old files."""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duetime]:
    with Duetime(settings=Settings(db=str(tmp_path_factory.mktemp("errors") / "errors.db"))) as duetime:
        yield duetime


def existing(duetime: Duetime) -> Any:
    return duetime.schedule(sweep, every="1h", key="existing")


CASES: dict[str, tuple[Callable[[Duetime], Any], type[DuetimeError], str, str | None]] = {
    "no schedule": (lambda d: d.get("nothing"), NotFound, "not_found", None),
    "no schedule to pause": (lambda d: d.pause("nothing"), NotFound, "not_found", None),
    "no run": (lambda d: d.run(12345), NotFound, "not_found", None),
    "no run to cancel": (lambda d: d.cancel_run(12345), NotFound, "not_found", None),
    "no run to retry": (lambda d: d.retry(12345), NotFound, "not_found", None),
    "unknown task": (lambda d: d.schedule("nope", every="1h"), InvalidInput, "unknown_task", "task"),
    "unknown zone": (lambda d: d.schedule(sweep, every="1h", timezone="X"), InvalidInput, "unknown_zone", "timezone"),
    "bad argument": (lambda d: d.schedule(sweep, args=["x"], every="1h"), InvalidInput, "invalid", None),
    "bad cron": (lambda d: d.schedule(sweep, cron="99 9 * * *"), InvalidInput, "invalid_trigger", None),
    "bad time": (lambda d: d.schedule(sweep, at="whenever"), InvalidInput, "invalid_trigger", None),
    "no time": (lambda d: d.schedule(sweep), InvalidInput, "invalid", "when"),
    "bad policy": (lambda d: d.schedule(sweep, every="1h", max_attempts=0), InvalidInput, "invalid", "max_attempts"),
    "key": (lambda d: d.schedule(sweep, every="1h", key=5), InvalidInput, "invalid", "key"),  # type: ignore[arg-type]
    "name": (lambda d: existing(d).edit(name=5), InvalidInput, "invalid", "name"),
    "policy": (lambda d: existing(d).edit(policy=None), InvalidInput, "invalid", "policy"),
    "fields": (lambda d: existing(d).edit(fields="x"), InvalidInput, "invalid", "fields"),
    "payload": (lambda d: existing(d).edit(payload="x"), InvalidInput, "invalid", "payload"),
    "trigger": (lambda d: existing(d).edit(trigger_type="cron", trigger_config=None), InvalidInput, "invalid",
                "trigger_config"),
    "note": (lambda d: existing(d).pause(note=5), InvalidInput, "invalid", "note"),
    "limit": (lambda d: existing(d).history("x"), InvalidInput, "invalid", "limit"),
    "id": (lambda d: d.get(None), InvalidInput, "invalid", "schedule"),  # type: ignore[arg-type]
    "id to be found": (lambda d: d.find(3.5), InvalidInput, "invalid", "schedule"),  # type: ignore[arg-type]
    "run": (lambda d: d.run("x"), InvalidInput, "invalid", "run_id"),  # type: ignore[arg-type]
    "input": (lambda d: d.run_again(1, "x"), InvalidInput, "invalid", "payload"),  # type: ignore[arg-type]
    "option": (lambda d: d.preview(every="1h", foo=1), InvalidInput, "invalid", "foo"),  # type: ignore[call-arg]
    "count": (lambda d: d.preview("x", every="1h"), InvalidInput, "invalid", "count"),  # type: ignore[arg-type]
    "marked": (lambda d: d.inbox.mark(5), InvalidInput, "invalid", "ids"),  # type: ignore[arg-type]
    "marked by a text": (lambda d: d.inbox.mark("12"), InvalidInput, "invalid", "ids"),  # type: ignore[arg-type]
    "marked by texts": (lambda d: d.inbox.mark(["x"]), InvalidInput, "invalid", "ids"),  # type: ignore[list-item]
    "seconds": (lambda d: d.wait(existing(d).id, "x"), InvalidInput, "invalid", "seconds"),  # type: ignore[arg-type]
    "seconds of a schedule": (lambda d: existing(d).wait("x"), InvalidInput, "invalid", "seconds"),
    "wait": (lambda d: d.run_now(existing(d).id, wait="x"), InvalidInput, "invalid", "wait"),  # type: ignore[arg-type]
    "most": (lambda d: d.schedules(limit="a"), InvalidInput, "invalid", "limit"),  # type: ignore[arg-type]
    "input of any kind": (lambda d: d.create("job", "x", every="1h"), InvalidInput, "invalid", "payload"),  # type: ignore[arg-type]
    "kwargs": (lambda d: d.schedule(sweep, kwargs="x", every="1h"), InvalidInput, "invalid", "kwargs"),  # type: ignore[arg-type]
    "args": (lambda d: d.schedule(sweep, args=5, every="1h"), InvalidInput, "invalid", "args"),  # type: ignore[arg-type]
    "allow": (lambda d: d.prompt("Say hello", allow="x"), InvalidInput, "invalid", "allow"),  # type: ignore[arg-type]
    "tags": (lambda d: d.notify("hello", tags=5), InvalidInput, "invalid", "tags"),  # type: ignore[arg-type]
    "actions": (lambda d: d.notify("hello", actions=["x"]), InvalidInput, "invalid", "actions"),  # type: ignore[list-item]
    "headers": (lambda d: d.request("https://example.org", headers="x"), InvalidInput, "invalid", "headers"),  # type: ignore[arg-type]
    "range": (lambda d: d.upcoming(start="in 2 days", until="in 1 day"), InvalidInput, "invalid", "until"),
    "unknown agent": (lambda d: d.prompt("Say hello", agent="nobody"), InvalidInput, "invalid", "agent"),
    "delay": (lambda d: d.schedule(sweep, delay=10**400), InvalidInput, "invalid", "delay"),
    "every": (lambda d: d.schedule(sweep, every=10**400), InvalidInput, "invalid", "every"),
    "timeout": (lambda d: d.schedule(sweep, every="1h", timeout=10**400), InvalidInput, "invalid", "timeout"),
    "grace": (lambda d: d.schedule(sweep, every="1h", grace=-(10**400)), InvalidInput, "invalid", "grace"),
    "backoff": (lambda d: d.schedule(sweep, every="1h", backoff=math.inf), InvalidInput, "invalid", "backoff"),
    "no number": (lambda d: d.schedule(sweep, every="1h", jitter=math.nan), InvalidInput, "invalid", "jitter"),
    "lease": (lambda d: d.take_prompt(lease=math.nan), InvalidInput, "invalid", "lease"),
    "endless lease": (lambda d: d.take_prompt(lease=1e30), InvalidInput, "invalid", "lease"),
    "no lease": (lambda d: d.take_prompt(lease=0), InvalidInput, "invalid", "lease"),
    "lease that has expired": (lambda d: d.take_prompt(lease=-1), InvalidInput, "invalid", "lease"),
    "action": (lambda d: d.change_runs("cancel", ids=[1]), InvalidInput, "invalid", "action"),  # type: ignore[arg-type]
    "no action": (lambda d: d.change_runs([], ids=[1]), InvalidInput, "invalid", "action"),  # type: ignore[arg-type]
    "trigger config": (lambda d: existing(d).edit(name="x", trigger_config={"hours": 5}), InvalidInput, "invalid",
                       "trigger_config"),
    "trigger type": (lambda d: existing(d).edit(trigger_type=[]), InvalidInput, "invalid", "trigger_type"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_refusal_says_what_it_is(scheduler: Duetime, case: str) -> None:
    call, type_, code, field = CASES[case]
    with pytest.raises(DuetimeError) as caught:
        call(scheduler)
    assert isinstance(caught.value, type_) and caught.value.code == code
    if field is not None:
        assert isinstance(caught.value, InvalidInput) and caught.value.field == field


def test_a_range_is_refused_with_the_names_of_its_arguments(scheduler: Duetime) -> None:
    with pytest.raises(InvalidInput, match=r"until: .* the time of start;"):
        scheduler.upcoming(start="in 2 days", until="in 1 day")
    with pytest.raises(InvalidInput, match=r"until: .* the time of since;"):
        scheduler.history(since="yesterday", until="3 days ago")


def test_wrong_states_are_conflicts(scheduler: Duetime) -> None:
    job = scheduler.schedule(sweep, every="1h")
    scheduler.cancel(job.id)
    with pytest.raises(Conflict) as caught:
        scheduler.pause(job.id)
    assert caught.value.code == "not_possible"
    again = scheduler.schedule(sweep, every="1h")
    with pytest.raises(Conflict) as changed:
        scheduler.edit(again.id, name="other", version=7)
    assert changed.value.code == "conflict"


def test_a_store_that_cannot_be_read(scheduler: Duetime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(type(scheduler.app.store), "search", fail)
    with pytest.raises(StoreUnavailable) as caught:
        scheduler.schedules()
    assert caught.value.code == "store_unavailable" and not caught.value.permanent


def test_a_limit(tmp_path: Path) -> None:
    settings = Settings(db=str(tmp_path / "limit.db"), max_schedules=1)
    duetime = Duetime(settings=settings)
    with pytest.warns(UserWarning):
        duetime.schedule(sweep, every="1h")
    with pytest.raises(LimitReached) as caught:
        duetime.schedule(sweep, every="2h")
    assert caught.value.code == "quota"
    duetime.close()


def test_all_are_exported_and_of_one_base() -> None:
    for each in EXPORTED:
        assert getattr(package, each.__name__) is each and each.__name__ in package.__all__
        assert issubclass(each, DuetimeError)


@pytest.mark.parametrize("code", [*ERRORS, "something_new"])
def test_every_code_becomes_its_exception(code: str) -> None:
    error = refuse(code, "Do it differently.", "x", details={"hint": "Like this."})
    assert type(error) is error_class(code).type
    assert (error.code, error.message) == (code, "Do it differently.")
    assert error.details == {"field": "x", "hint": "Like this."} and error.__notes__ == ["Like this."]
    assert type(error).code in ERRORS or type(error) is Refused


def test_an_error_without_a_message_gets_that_of_its_class() -> None:
    assert str(refuse("not_found", "")) == "There is no such thing."


def test_a_run_is_not_started_if_the_time_to_wait_for_it_is_wrong(scheduler: Duetime) -> None:
    job = scheduler.schedule(sweep, every="1h")
    with pytest.raises(InvalidInput, match="wait: must be a number, not 'soon'"):
        job.run_now(wait="soon")  # type: ignore[arg-type]
    assert job.history() == []
