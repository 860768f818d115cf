"""`AsyncDuetime`: the methods of `Duetime` as coroutines that never block the event loop."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, assert_type, get_type_hints

import pytest
from fastapi.testclient import TestClient

from duetime import (
    AsyncDuetime,
    AsyncSchedule,
    Conflict,
    Duetime,
    DuetimeError,
    InvalidInput,
    Message,
    NotFound,
    NotStartedWarning,
    Run,
    Schedule,
    Settings,
)
from duetime.api import base
from duetime.api.asynchronous import MAX_CALLS, AsyncDeadLetters, AsyncInbox
from duetime.api.runs import DeadLetters, Inbox
from duetime.api.types import RunList
from duetime.app import build
from duetime.engine.scheduler import Scheduler
from duetime.kinds.jobs.registry import default_registry
from tests.support.cli import ROOT
from tests.support.tasks import LATER, PATIENCE, tasks


def opened(path: Path) -> AsyncDuetime:
    settings = Settings(db=str(path / "my.db"), timezone="UTC", threads=4, smallest_interval=0.01)
    return AsyncDuetime(settings=settings, registry=tasks())


def public(of: type) -> dict[str, Any]:
    members = inspect.getmembers(of, inspect.isfunction)
    return {name: each for name, each in members if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "asynchronous", "left_out"),
    [
        (Duetime, AsyncDuetime, {"run_forever"}),
        (Schedule, AsyncSchedule, set()),
        (Inbox, AsyncInbox, set()),
        (DeadLetters, AsyncDeadLetters, set()),
    ],
)
def test_every_method_is_a_coroutine_with_the_same_arguments(
    blocking: type, asynchronous: type, left_out: set[str]
) -> None:
    expected = {name: each for name, each in public(blocking).items() if name not in left_out}
    coroutines = public(asynchronous)
    assert coroutines.keys() == expected.keys() and len(coroutines) > 2
    for name, method in coroutines.items():
        assert name == "as_dict" or inspect.iscoroutinefunction(method), name
        assert not re.search(r"\bSchedule\b", str(inspect.signature(method).return_annotation)), f"{name} blocks later"
        assert [*inspect.signature(method).parameters] == [*inspect.signature(expected[name]).parameters], name


def test_a_schedule_is_created_changed_run_and_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as duetime:
            job = await duetime.schedule("shout", args=["tea"], cron="0 9 * * *", timezone="UTC")
            assert_type(job, AsyncSchedule)
            assert (job.created, job.status, f"{job.next_run:%H:%M}") == (True, "pending", "09:00")
            edited = await job.edit(name="Tea", cron="0 10 * * *")
            assert (edited.name, f"{edited.next_run:%H:%M}", job.name) == ("Tea", "10:00", "shout")
            assert (await job.pause(until=LATER)).paused_until == LATER
            assert (await job.resume()).status == "pending"
            with pytest.raises(InvalidInput):
                await job.edit(colour="red")  # type: ignore[call-arg]
            run = await job.run_now(wait=PATIENCE)
            assert_type(run, Run)
            assert (run.status, run.result, run.ended) == ("completed", "TEA", True)
            assert [each.run_id for each in await job.history()] == [run.run_id]
            listed = await duetime.schedules()
            assert_type(listed, list[AsyncSchedule])
            assert [each.id for each in listed] == [job.id] and listed[0] == await job.refresh()
            assert (await job.cancel()).status == "cancelled"
            await job.delete()
            assert await duetime.find(job.id) is None
            with pytest.raises(NotFound):
                await job.refresh()

    asyncio.run(main())


def test_the_inbox_and_the_dead_letters_are_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as duetime:
            reminder = await duetime.notify("Water the plants", "home")
            assert (await reminder.wait(PATIENCE)).status == "completed"
            messages = await duetime.inbox.messages("home")
            assert_type(messages, list[Message])
            assert [each.message for each in messages] == ["Water the plants"]
            assert await duetime.inbox.mark_all_read() == 1
            run = await (await duetime.schedule("fail", at=LATER)).run_now(wait=PATIENCE)
            assert [each.run_id for each in await duetime.dead_letters.runs()] == [run.run_id]
            assert [each.run_id for each in await duetime.dead_letters.dismiss_all()] == [run.run_id]

    asyncio.run(main())


class Gate:
    """Something blocking that goes on only when the event loop opens it: a loop that is blocked never does."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*args: Any, **kwargs: Any) -> Any:
            self.reached.set()
            assert self._open.wait(PATIENCE), "the event loop is blocked"
            return call(*args, **kwargs)

        return waiting

    async def pass_through(self) -> None:
        """Wait, in the loop, until something blocks, and let it go on."""
        while not self.reached.is_set():
            await asyncio.sleep(0.01)
        self._open.set()


@pytest.mark.parametrize(("place", "name"), [(base, "build"), (Scheduler, "create_all"), (Duetime, "close")])
def test_the_loop_is_never_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> None:
    """Opening the store, creating a schedule and closing the store each wait for the loop to do something else."""
    gate = Gate()
    monkeypatch.setattr(place, name, gate.before(getattr(place, name)))

    async def use() -> None:
        async with opened(tmp_path) as duetime:
            await duetime.schedule("shout", at=LATER)

    async def main() -> None:
        await asyncio.gather(use(), gate.pass_through())

    asyncio.run(main())
    assert gate.reached.is_set()


def test_a_task_that_is_cancelled_does_not_wait_any_longer(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as duetime:
            job = await duetime.schedule("shout", at=LATER)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(job.wait(), 0.1)

    asyncio.run(main())
    threads = [each for each in threading.enumerate() if each.name.startswith("duetime_")]
    for each in threads:
        each.join(PATIENCE)
        assert not each.is_alive(), "a thread still waits"


def workers(duetime: Duetime) -> int:
    return len([each for each in duetime.workers() if each.alive])


def reopened(path: Path) -> Duetime:
    return Duetime(settings=Settings(db=str(path / "my.db"), timezone="UTC"), registry=tasks())


def test_starting_many_times_at_once_starts_one_worker(tmp_path: Path) -> None:
    async def main() -> int:
        async with opened(tmp_path) as duetime:
            await asyncio.gather(*(duetime.start() for _ in range(8)))
            return len([each for each in await duetime.workers() if each.alive])

    assert asyncio.run(main()) == 1


def test_closing_during_a_start_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(base, "build", gate.before(build))

    async def main() -> None:
        duetime = opened(tmp_path)
        start = asyncio.create_task(duetime.start())
        while not gate.reached.is_set():
            await asyncio.sleep(0.01)
        await asyncio.gather(start, duetime.close(), gate.pass_through(), return_exceptions=True)

    asyncio.run(main())
    monkeypatch.undo()
    duetime = reopened(tmp_path)
    assert workers(duetime) == 0
    duetime.close()


def test_a_start_that_is_interrupted_leaves_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(base, "build", gate.before(build))

    async def use() -> None:
        async with opened(tmp_path):
            pass

    async def main() -> None:
        task = asyncio.create_task(use())
        while not gate.reached.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, gate.pass_through(), return_exceptions=True)
        assert task.cancelled()

    asyncio.run(main())
    monkeypatch.undo()
    duetime = reopened(tmp_path)
    assert workers(duetime) == 0
    duetime.close()


def test_waits_leave_room_for_other_calls_and_for_the_close(tmp_path: Path) -> None:
    async def main() -> None:
        duetime = await opened(tmp_path).start()
        job = await duetime.schedule("shout", at=LATER)
        waits = [asyncio.create_task(job.wait()) for _ in range(2 * MAX_CALLS)]
        await asyncio.sleep(0.1)
        assert len(await asyncio.wait_for(duetime.schedules(), PATIENCE)) == 1
        await asyncio.wait_for(duetime.close(), PATIENCE)
        ends = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), PATIENCE)
        assert all(isinstance(each, DuetimeError) for each in ends), ends

    asyncio.run(main())


def test_a_closed_one_says_so_and_can_be_opened_again(tmp_path: Path) -> None:
    async def main() -> None:
        duetime = opened(tmp_path)
        await duetime.close()
        async with duetime:
            job = await duetime.schedule("shout", at=LATER)
        await duetime.close()
        for call in (duetime.schedules, job.refresh, duetime.inbox.messages):
            with pytest.raises(Conflict, match="it is closed; open it again"):
                await call()
        async with duetime:
            assert [each.id for each in await duetime.schedules()] == [job.id]

    asyncio.run(main())


def test_a_prompt_is_given_back_if_nobody_waits_for_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    real_take: Callable[..., Any] = Scheduler.take

    def take(*args: Any, **kwargs: Any) -> Any:
        taken = real_take(*args, **kwargs)
        return gate.before(lambda: taken)() if taken is not None else taken

    async def main() -> None:
        async with opened(tmp_path) as duetime:
            await duetime.prompt("Make tea", agent="inbox")
            monkeypatch.setattr(Scheduler, "take", take)
            caller = asyncio.create_task(duetime.take_prompt("inbox", wait=PATIENCE))
            while not gate.reached.is_set():
                await asyncio.sleep(0.01)
            caller.cancel()
            await asyncio.gather(caller, gate.pass_through(), return_exceptions=True)
            assert caller.cancelled()
            monkeypatch.undo()
            taken = await duetime.take_prompt("inbox")
            assert taken is not None and taken.prompt == "Make tea"

    asyncio.run(main())


@pytest.mark.parametrize("closes_first", [True, False])
def test_a_task_that_is_cancelled_while_the_store_is_closed_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closes_first: bool
) -> None:
    gate = Gate()

    async def main() -> None:
        duetime = await opened(tmp_path).start()
        await duetime.prompt("Make tea", agent="inbox")
        monkeypatch.setattr(Scheduler, "take", gate.before(Scheduler.take))
        caller = asyncio.create_task(duetime.take_prompt("inbox", wait=PATIENCE))
        while not gate.reached.is_set():
            await asyncio.sleep(0.01)
        if closes_first:
            await duetime.close()
        caller.cancel()
        await asyncio.sleep(0.05)
        if not closes_first:
            await duetime.close()
        await asyncio.gather(caller, gate.pass_through(), return_exceptions=True)
        assert caller.cancelled()

    asyncio.run(main())


def test_a_method_is_found_by_its_class_with_the_arguments_of_its_form() -> None:
    assert str(inspect.signature(Duetime.pause)).startswith("(self: 'Opened', id: 'Id', *, until")
    assert [*inspect.signature(Schedule.pause).parameters] == ["self", "until", "note"]
    assert (Duetime.pause.__qualname__, AsyncSchedule.pause.__qualname__) == ("Duetime.pause", "AsyncSchedule.pause")
    assert Schedule.pause.__doc__ == AsyncDuetime.pause.__doc__ and Duetime.pause is Duetime.pause


def test_type_checkers_know_the_arguments_and_results_of_every_form() -> None:
    """Mistakes that a type checker has to see; it reports an ignore that nothing needs."""

    def blocking(duetime: Duetime, schedule: Schedule) -> None:
        assert_type(duetime.edit(id=1, name="Tea"), Schedule)
        assert_type(schedule.wait(1), Schedule)
        assert_type(duetime.run_now(1, wait=1), Run)
        assert_type(duetime.find("tea"), Schedule | None)
        duetime.pause()  # type: ignore[call-arg]
        schedule.pause("tea")  # type: ignore[call-arg]
        schedule.schedules()  # type: ignore[attr-defined]

    async def coroutines(duetime: AsyncDuetime, schedule: AsyncSchedule) -> None:
        assert_type(await duetime.edit(id=1, name="Tea"), AsyncSchedule)
        assert_type(await schedule.wait(1), AsyncSchedule)
        assert_type(await schedule.history(5, status="failed"), RunList)
        assert_type(await duetime.find("tea"), AsyncSchedule | None)
        await duetime.pause(1, until=1)  # type: ignore[arg-type]
        await schedule.edit(name=1)  # type: ignore[arg-type]

    assert [each.__name__ for each in (blocking, coroutines)] == ["blocking", "coroutines"]


def test_the_warning_about_a_missing_worker_names_the_line_that_created_the_schedule(tmp_path: Path) -> None:
    async def main() -> None:
        duetime = opened(tmp_path)
        with pytest.warns(NotStartedWarning) as caught:
            await duetime.schedule("shout", at=LATER)
        assert [each.filename for each in caught] == [__file__]
        await duetime.close()

    asyncio.run(main())
    duetime = reopened(tmp_path)
    with pytest.warns(NotStartedWarning) as caught:
        duetime.create_scheduled_task("Make tea", LATER)
    assert [each.filename for each in caught] == [__file__]
    duetime.close()


def test_signatures_name_the_schedules_that_are_returned() -> None:
    assert inspect.signature(AsyncSchedule.wait).return_annotation == "AsyncSchedule"
    assert inspect.signature(AsyncDuetime.schedules).return_annotation == "list[AsyncSchedule]"
    assert inspect.signature(AsyncDuetime.find).return_annotation == "AsyncSchedule | None"
    assert inspect.signature(AsyncDuetime.take_prompt).return_annotation == "TakenPrompt | None"
    assert inspect.signature(Schedule.wait).return_annotation == "Schedule"
    assert get_type_hints(Schedule.wait)["return"] is Schedule


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The web application of the examples, on a store in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(default_registry, "_tasks", dict(default_registry._tasks))
    spec = importlib.util.spec_from_file_location("web_application", ROOT / "examples" / "web_application.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_web_application_of_the_examples_does_not_block_its_loop(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, creating = Gate(), Gate()
    monkeypatch.setattr(base, "build", opening.before(build))

    async def use() -> list[str]:
        async with example.lifespan(example.app):
            monkeypatch.setattr(Scheduler, "create_all", creating.before(Scheduler.create_all))
            made, _ = await asyncio.gather(example.create_greeting("Ann"), creating.pass_through())
            await example.duetime.wait(made["id"], PATIENCE)
            greetings: list[str] = await example.greetings()
            return greetings

    async def main() -> list[str]:
        greetings, _ = await asyncio.gather(use(), opening.pass_through())
        return greetings

    assert asyncio.run(main()) == ["Hello Ann"]


def test_the_web_application_of_the_examples_can_be_started_again(example: ModuleType) -> None:
    for _ in range(2):
        with TestClient(example.app) as client:
            assert client.get("/greetings").json() == []
