"""Files of schedules: whatever they contain, applying one twice changes nothing, and neither does what was exported."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from duetime.cli.data.schedule_file import read_schedules, toml_export
from duetime.engine.clock import DAY, Instant
from duetime.engine.errors import Conflict, DuetimeError, LimitReached
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import Schedule
from duetime.engine.policy import changes
from duetime.engine.policy.changes import Change, Edit
from duetime.engine.store import ScheduleQuery
from duetime.service.operations import apply as apply_module
from duetime.service.operations.apply import ApplyFile, FilePlan, apply
from duetime.service.operations.change import Cancel, Delete, Pause, change
from duetime.service.operations.create import CreateSchedule, create
from duetime.service.operations.edit import EditSchedule, edit
from duetime.service.schedule_files import FileEntry
from duetime.service.services import Call, operator_call
from tests.support.size import FULL
from tests.support.stage import Stage

SECRET = "password=geheim99"
EXAMPLES = 60 if FULL else 12
Table = dict[str, Any]


def entries(document: Mapping[str, Table]) -> list[FileEntry]:
    """Return entries by headings such as `job.backup`."""
    return [FileEntry(path.partition(".")[0], path.partition(".")[2], values) for path, values in document.items()]


def job(**values: Any) -> Table:
    when = {} if {"every", "cron", "at", "after", "on", "trigger"} & values.keys() else {"when": "every day at 2:00"}
    return {"task": "echo", "args": ["hi"], **when, **values}


def run(stage: Stage, document: Mapping[str, Table], **options: Any) -> FilePlan:
    plan = apply(operator_call(stage.app.services), ApplyFile("nightly", entries(document), **options)).value
    return plan


def actions(plan: FilePlan) -> dict[str, str]:
    return {each.path: each.action for each in plan.changes}


def rows(stage: Stage) -> list[Schedule]:
    return stage.app.scheduler.search(Caller(LOCAL, operator=True), ScheduleQuery(limit=1000)).items


def stored(stage: Stage) -> dict[str, Schedule]:
    """Return the schedules by name."""
    return {each.definition.name: each for each in rows(stage)}


def call_of(stage: Stage) -> Call:
    return operator_call(stage.app.services)


# -- random files -----------------------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    str.strip
)
texts = words | st.sampled_from(["${HOME}", "$${x}", '"""', "a\nb", "back\\slash", "tab\there", SECRET, "'"])
plain = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.just("${HOME}"), inner, max_size=3),
    max_leaves=5,
)
times = st.sampled_from(
    [
        {"when": "every weekday at 8:30"},
        {"when": "every 2 weeks on friday at 9", "timezone": "Europe/Berlin"},
        {"every": "2h30m"},
        {"every": "1d", "start": "2026-03-01", "end": "2026-12-31"},
        {"cron": "*/5 9-17 * * 1-5", "jitter": "30s"},
        {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "timezone": "Asia/Tokyo"},
        {"at": "2026-12-24T18:00:00"},
        {"when": "in 2 hours"},
        {"when": "on github.push where ref = refs/heads/main at most every 10m"},
        {"on": "deploy.done"},
    ]
)
policies = st.fixed_dictionaries(
    {},
    optional={
        "max_attempts": st.integers(1, 5),
        "timeout": st.sampled_from(["30s", 90, "2h", 0.5]),
        "catch_up": st.sampled_from(["once", "all", "skip"]),
        "overlap": st.sampled_from(["skip", "queue", "allow"]),
        "max_runs": st.integers(1, 9),
        "pause_after": st.integers(0, 9),
        "backoff": st.sampled_from(["5s", 20]),
        "only_if": st.just("echo(1) | changed()"),
        "deliver_to": st.just("me"),
    },
)
jobs = st.builds(
    lambda when, policy, argument: {"task": "echo", "args": [argument], **when, **policy}, times, policies, values
)
prompts = st.builds(lambda when, policy, text: {"prompt": text, **when, **policy}, times, policies, texts)
messages = st.builds(
    lambda when, policy, text: {"message": text, "topic": "me", **when, **policy}, times, policies, texts
)
names = st.sampled_from(["a", "b", "backup", "Ünicode name", "with.dot", "x" * 60])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Table]:
    parts = {"job": jobs, "prompt": prompts, "notification": messages}
    document: dict[str, Table] = {}
    for kind, tables in parts.items():
        drawn = draw(st.dictionaries(names, tables, max_size=3))
        document |= {f"{kind}.{name}": table for name, table in drawn.items()}
    paths = [path for path in document if path.startswith("job.") and "with.dot" not in path]
    for number, path in enumerate(paths[: draw(st.integers(0, len(paths)))]):
        document[f"job.follower {number}"] = job(after=f"{path.replace('job.', 'jobs.', 1)} succeeds")
    return document


def property_test(function: Any) -> Any:
    return settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    )(function)


def emptied(stage: Stage) -> None:
    for each in rows(stage):
        change(call_of(stage), Delete(schedule=each, forever=True))


def usable(stage: Stage, document: dict[str, Table]) -> dict[str, Table]:
    """Return the entries that are not refused by themselves, such as for options that contradict each other."""
    kept: dict[str, Table] = {}
    for path, table in document.items():
        followed = str(table.get("after", "")).removesuffix(" succeeds").replace("jobs.", "job.", 1)
        try:
            if not followed or followed in kept:
                run(stage, {path: table} | ({followed: kept[followed]} if followed else {}), dry_run=True)
                kept[path] = table
        except DuetimeError:
            pass
    return kept


def exported(stage: Stage, name: str = "nightly") -> Sequence[FileEntry]:
    """Return the entries of the export, as `duetime apply` reads them. Every secret of the random files is the same."""
    text, chosen, _ = toml_export(call_of(stage), rows(stage), LOCAL, name)
    assert len(chosen) == len(rows(stage)) and SECRET not in text
    return read_schedules(f"{name}.toml", text, secrets_of(text)).entries


def secrets_of(text: str) -> dict[str, str]:
    return dict.fromkeys(re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)\}", text), SECRET)


@property_test
@given(document=documents())
def check_applying(stage: Stage, document: dict[str, Table]) -> None:
    emptied(stage)
    document = usable(stage, document)
    plan = run(stage, document)
    assert set(actions(plan).values()) <= {"create"} and len(plan.changes) == len(document)
    first = rows(stage)
    assert run(stage, document, dry_run=True).changes == []
    stage.time.clock.jump(timedelta(minutes=7))
    again = run(stage, document)
    assert again.changes == [] and again.unchanged == len(document)
    assert rows(stage) == first
    request = ApplyFile("nightly", exported(stage), dry_run=True)
    assert apply(call_of(stage), request).value.changes == []
    other = ApplyFile("elsewhere", exported(stage, "elsewhere"), dry_run=True)
    assert apply(call_of(stage), other).value.changes == [], "schedules are known by their ids, too"


def test_random_files(both: Stage) -> None:
    check_applying(both)


@property_test
@given(before=documents(), after=documents())
def check_changing(stage: Stage, before: dict[str, Table], after: dict[str, Table]) -> None:
    emptied(stage)
    before, after = usable(stage, before), usable(stage, after)
    run(stage, before)
    run(stage, after, prune=True)
    names = {table.get("name", path.split(".", 1)[1]) for path, table in after.items()}
    assert {each.definition.name for each in stored(stage).values() if each.progress.state != "deleted"} == names
    assert run(stage, after, prune=True).changes == []
    assert apply(call_of(stage), ApplyFile("nightly", exported(stage), prune=True, dry_run=True)).value.changes == []


def test_a_file_that_changes(both: Stage) -> None:
    check_changing(both)


def test_two_at_once_agree(both: Stage) -> None:
    document = {f"job.j{number}": job(args=[number]) for number in range(30)}
    document |= {f"job.f{number}": job(after=f"j{number} ends") for number in range(10)}
    for version in ("create", "change"):
        wanted = (
            document if version == "create" else {path: {**table, "timeout": 9} for path, table in document.items()}
        )
        problems: list[BaseException] = []

        def one(wanted: dict[str, Table] = wanted, problems: list[BaseException] = problems) -> None:
            try:
                run(both, wanted)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=one) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert len(stored(both)) == 40
        assert run(both, wanted).changes == []


def test_a_failure_in_the_middle_leaves_everything_as_it_was(both: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run(both, {"job.old": job(), "job.kept": job(args=["before"])})
    before = stored(both)

    def fail(change: Change, patch: Edit) -> Any:
        changes.edit(change, patch)
        raise LimitReached("no room")

    monkeypatch.setattr("duetime.stores.base.edit", fail)
    with pytest.raises(LimitReached, match="no room"):
        run(both, {"job.new": job(), "job.next": job(after="new ends"), "job.kept": job(args=["after"])}, prune=True)
    assert stored(both) == before
    monkeypatch.undo()
    assert actions(run(both, {"job.new": job(), "job.kept": job(args=["after"])}, prune=True)) == {
        "jobs.new": "create",
        "jobs.kept": "change",
        "jobs.old": "remove",
    }


def test_more_than_a_part_goes_on_where_it_stopped(both: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_module, "MAX_PART", 5)
    document = {f"job.j{number}": job() for number in range(12)} | {"job.last": job(after="j11 ends")}
    carry_out, parts = both.app.scheduler.carry_out, []

    def stop(*arguments: Any) -> Any:
        parts.append(len(arguments[1]))
        if len(parts) == 2:
            raise LimitReached("no room")
        return carry_out(*arguments)

    with monkeypatch.context() as patched, pytest.raises(LimitReached):
        patched.setattr(both.app.scheduler, "carry_out", stop)
        run(both, document)
    assert len(stored(both)) == 5
    assert len(run(both, document).changes) == 8
    assert len(stored(both)) == 13
    assert run(both, document).changes == []


# -- single cases -----------------------------------------------------------------------------------------------------


def test_the_plan_says_what_changes_field_by_field(stage: Stage) -> None:
    run(stage, {"job.backup": job(args=[{"a": 1, "token": "geheim1"}])})
    [each] = run(
        stage, {"job.backup": job(args=[{"a": 2, "token": "geheim2"}], when="every day at 3:00", timeout="5m")}
    ).changes
    shown = {one["field"]: (one["before"], one["after"]) for one in each.differences}
    assert shown["args"] == ([{"a": 1, "token": "***"}], [{"a": 2, "token": "***"}])
    assert shown["timeout_seconds"] == (None, 300)
    assert "02:00" in shown["when"][0] and "03:00" in shown["when"][1]
    assert "geheim" not in str(each)


def test_what_somebody_changed_elsewhere_is_changed_back_and_said_before(stage: Stage) -> None:
    document = {"job.backup": job()}
    run(stage, document)
    answer = edit(call_of(stage), EditSchedule(schedule="backup", times={"cron": "0 5 * * *"}))
    assert "declared_elsewhere" in [each.code for each in answer.warnings]
    assert "the file nightly" in str(answer.warnings)
    assert actions(run(stage, document)) == {"jobs.backup": "change"}
    assert run(stage, document).changes == []


def test_paused_stays_paused_and_cancelled_stays_cancelled(both: Stage) -> None:
    run(both, {"job.a": job(), "job.b": job()})
    change(call_of(both), Pause(schedule="a"))
    change(call_of(both), Cancel(schedule="b"))
    answer = apply(call_of(both), ApplyFile("nightly", entries({"job.a": job(timeout=5), "job.b": job(timeout=5)})))
    assert actions(answer.value) == {"jobs.a": "change"}
    assert "jobs.b was cancelled" in str(answer.notes)
    states = {name: each.progress.state for name, each in stored(both).items()}
    assert states == {"a": "paused", "b": "cancelled"}


def test_prune_touches_only_what_the_same_file_made(both: Stage) -> None:
    create(call_of(both), CreateSchedule("job", {"task": "echo", "args": ["x"]}, {"every": "1h"}, name="mine"))
    apply(call_of(both), ApplyFile("other", entries({"job.theirs": job()})))
    run(both, {"job.old": job(), "job.new": job()})
    answer = apply(call_of(both), ApplyFile("nightly", entries({"job.new": job()})))
    assert "jobs.old" in str(answer.notes) and answer.value.changes == []
    assert actions(run(both, {"job.new": job()}, prune=True)) == {"jobs.old": "remove"}
    assert set(stored(both)) == {"mine", "theirs", "new"}
    assert actions(run(both, {"job.new": job(), "job.old": job()})) == {"jobs.old": "create"}


def test_what_an_entry_follows_is_not_pruned(both: Stage) -> None:
    """The file could not be applied again."""
    run(both, {"job.a": job(), "job.b": job(after="a ends")})
    with pytest.raises(DuetimeError, match=r"jobs\.b: it follows jobs\.a, which prune would delete") as caught:
        run(both, {"job.b": job(after="a ends"), "job.c": job()}, prune=True)
    assert len(caught.value.details["problems"]) == 1
    assert set(stored(both)) == {"a", "b"}
    assert actions(run(both, {"job.b": job()}, prune=True)) == {"jobs.b": "change", "jobs.a": "remove"}


def test_prune_names_the_followers_that_stay(both: Stage) -> None:
    document = {"job.a": job(), "job.gone": job(after="a ends"), "job.b": job(after="a ends")}
    run(both, document)
    for name in ("mine", "yours"):
        create(call_of(both), CreateSchedule("job", {"task": "echo"}, {"after": "a ends"}, name=name))
    answer = apply(call_of(both), ApplyFile("nightly", entries({"job.b": job()}), prune=True))
    assert actions(answer.value) == {"jobs.b": "change", "jobs.a": "remove", "jobs.gone": "remove"}
    assert list(answer.notes) == ["jobs.a: schedules that follow it have no further runs: mine, yours."]


def test_circles_and_unknown_schedules_are_refused(stage: Stage) -> None:
    document = {"job.a": job(after="b ends"), "job.b": job(after="c ends"), "job.c": job(after="a ends")}
    with pytest.raises(DuetimeError, match="circle"):
        run(stage, document)
    with pytest.raises(DuetimeError, match=r"jobs\.a: .*no schedule 'nothing'"):
        run(stage, {"job.a": job(after="nothing ends")})
    with pytest.raises(DuetimeError) as caught:
        run(
            stage,
            {"job.a": job(when="every bad day"), "job.b": job(tiemout=3), "job.c": {"task": "nope", "every": "1h"}},
        )
    assert len(caught.value.details["problems"]) == 3
    assert stored(stage) == {}


def test_a_chain_can_be_turned_round(both: Stage) -> None:
    run(both, {"job.a": job(), "job.b": job(after="a ends"), "job.c": job(after="b ends")})
    document = {"job.a": job(after="b ends"), "job.b": job(after="c ends"), "job.c": job()}
    assert len(run(both, document).changes) == 3
    assert run(both, document).changes == []


def test_a_renamed_schedule_is_still_followed(both: Stage) -> None:
    run(both, {"job.a": job(), "job.b": job(after="a ends")})
    document = {"job.a": job(name="first"), "job.b": job(after="first ends")}
    run(both, document)
    assert run(both, document).changes == []
    both.time.advance(timedelta(days=1))
    assert {each.name for each in both.time.duetime.history()} == {"first", "b"}


def test_a_file_that_moved_is_noticed(stage: Stage) -> None:
    run(stage, {"job.a": job()})
    answer = apply(call_of(stage), ApplyFile("moved", entries({"job.a": job()}), dry_run=True))
    assert 'name = "nightly"' in str(answer.notes)


def test_the_file_owns_what_is_there_from_its_first_change_on(both: Stage) -> None:
    create(call_of(both), CreateSchedule("job", {"task": "echo", "args": ["x"]}, {"every": "1h"}, name="mine"))
    create(call_of(both), CreateSchedule("job", {"task": "echo", "args": ["x"]}, {"every": "1h"}, name="my", key="k"))
    found = exported(both, "elsewhere")
    assert apply(call_of(both), ApplyFile("elsewhere", found)).value.changes == []
    edited = [each._replace(values={**each.values, "timeout": 7}) for each in found]
    first, second = apply(call_of(both), ApplyFile("elsewhere", edited)).value.changes
    assert [one["field"] for one in first.differences] == ["source", "timeout_seconds"]
    assert [one["field"] for one in second.differences] == ["timeout_seconds"], "a key that somebody chose stays"
    assert apply(call_of(both), ApplyFile("elsewhere", edited)).value.changes == []
    removed = apply(call_of(both), ApplyFile("elsewhere", [], prune=True)).value
    assert [(each.action, each.name) for each in removed.changes] == [("remove", "mine")]


def test_a_one_off_that_has_run_is_not_repeated_unless_it_changes(both: Stage) -> None:
    document = {"job.once": job(at="in 1 hour")}
    run(both, document)
    both.time.advance(timedelta(hours=2))
    assert stored(both)["once"].progress.state == "ended"
    assert run(both, document).changes == []
    assert actions(run(both, {"job.once": job(at="in 3 hours")})) == {"jobs.once": "create"}
    assert stored(both)["once"].progress.state == "active"


def test_what_is_over_stays_so_after_its_history_is_deleted(both: Stage) -> None:
    noon = (both.time.now + timedelta(hours=1)).isoformat()
    document = {"job.a": job(), "job.delay": job(when="in 1 hour"), "job.at": job(at=noon)}
    run(both, document)
    change(call_of(both), Cancel(schedule="a"))
    both.time.advance(timedelta(hours=2))
    before = {each.definition.id for each in rows(both)}
    while both.app.scheduler.store.prune(Instant(both.app.scheduler.clock.now() + DAY), 100):
        pass
    assert both.time.duetime.history() == []
    answer = apply(call_of(both), ApplyFile("nightly", entries(document)))
    assert (answer.value.changes, answer.value.unchanged) == ([], 3)
    assert "jobs.a was cancelled and stays so" in str(answer.notes)
    assert {each.definition.id for each in rows(both)} == before


def test_a_one_off_whose_time_has_passed_does_not_keep_a_file_from_being_applied(both: Stage) -> None:
    past = {
        "job.old": job(at="2020-01-01 09:00"),
        "job.ended": job(every="1h", end="2020-01-01"),
        "job.next": job(after="old ends"),
        "job.last": job(after="next ends"),
    }
    answer = apply(call_of(both), ApplyFile("nightly", entries(past | {"job.new": job()})))
    assert actions(answer.value) == {"jobs.new": "create"} and answer.value.unchanged == 4
    assert sorted(answer.notes) == [
        "The time of jobs.ended has passed, so it is not created.",
        "The time of jobs.old has passed, so it is not created.",
        "jobs.last follows jobs.next, so it stays as it is.",
        "jobs.next follows jobs.old, so it stays as it is.",
    ]
    with pytest.raises(DuetimeError, match=r"jobs\.old: .*run_at"):
        run(both, {"job.old": job(at="no time at all")})


def test_a_one_off_that_has_begun_does_not_keep_an_export_from_being_applied(both: Stage) -> None:
    create(call_of(both), CreateSchedule("prompt", {"prompt": "tea"}, {"when": "in 1 hour"}, name="tea"))
    both.time.advance(timedelta(hours=2))
    assert stored(both)["tea"].progress.active == 1, "it waits for an agent"
    answer = apply(call_of(both), ApplyFile("elsewhere", exported(both, "elsewhere")))
    assert answer.value.changes == [] and answer.value.unchanged == 1
    assert list(answer.notes) == ["prompts.tea has begun, so it stays as it is."]


def test_a_one_off_that_is_overdue_does_not_keep_an_export_from_being_applied(both: Stage) -> None:
    create(call_of(both), CreateSchedule("job", {"task": "echo"}, {"at": "in 2 seconds"}, name="later"))
    both.time.clock.jump(timedelta(minutes=1))
    [entry] = exported(both, "elsewhere")
    answer = apply(call_of(both), ApplyFile("elsewhere", [entry]))
    assert (answer.value.changes, answer.value.unchanged) == ([], 1)
    assert list(answer.notes) == ["The time of jobs.later has passed, so it stays as it is."]
    for values in ({"at": "2020-01-01 09:00"}, {"timeout": "bad"}):
        with pytest.raises(DuetimeError, match=r"jobs\.later: "):
            apply(call_of(both), ApplyFile("elsewhere", [entry._replace(values={**entry.values, **values})]))


def test_a_one_off_that_became_due_in_a_pause_is_edited(both: Stage) -> None:
    run(both, {"job.once": job(at="in 1 hour", catch_up="skip")})
    schedule = stored(both)["once"].definition
    both.app.scheduler.pause(call_of(both).caller, schedule.public_id)
    both.time.advance(timedelta(hours=2))
    later = {"job.once": job(at="in 3 hours", catch_up="skip")}
    assert actions(run(both, later)) == {"jobs.once": "change"}


def test_a_text_with_the_line_ends_of_windows_stays_as_it_is(stage: Stage) -> None:
    run(stage, {"prompt.a": {"prompt": "one\r\ntwo", "when": "every day at 2:00"}})
    text, *_ = toml_export(call_of(stage), rows(stage), LOCAL, "nightly")
    assert apply(call_of(stage), read_schedules("nightly.toml", text, {})).value.changes == []


def test_what_others_change_after_the_confirmation_is_not_undone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run(stage, {"job.a": job(), "job.b": job()})
    wanted = {"job.a": job(args=["new"]), "job.b": job()}
    plan = run(stage, wanted, dry_run=True)
    carry_out = stage.app.scheduler.carry_out

    def edit_before(*arguments: Any) -> Any:
        monkeypatch.setattr(stage.app.scheduler, "carry_out", carry_out)
        for each in stored(stage).values():
            edit(call_of(stage), EditSchedule(schedule=each.definition.public_id, fields={"args": ["by hand"]}))
        return carry_out(*arguments)

    monkeypatch.setattr(stage.app.scheduler, "carry_out", edit_before)
    with pytest.raises(Conflict, match="in the meantime"):
        run(stage, wanted, expected=plan.changes)
    assert all("by hand" in each.definition.payload for each in stored(stage).values())


def test_what_was_confirmed_is_what_is_done(stage: Stage) -> None:
    plan = run(stage, {"job.a": job(every="1h")}, dry_run=True)
    edited = {"job.a": job(every="2h")}
    with pytest.raises(Conflict, match="in the meantime"):
        run(stage, edited, expected=plan.changes)
    assert stored(stage) == {}
    run(stage, {"job.a": job(every="1h")}, expected=plan.changes)


def test_only_operators_apply_files_and_nobody_else_uses_their_keys(stage: Stage) -> None:
    call = call_of(stage)._replace(caller=Caller("ada"))
    with pytest.raises(DuetimeError, match="operator"):
        apply(call, ApplyFile("nightly", []))
    with pytest.raises(DuetimeError, match="must not begin with"):
        create(call, CreateSchedule("job", {"task": "echo"}, {"every": "1h"}, key="duetime-file:nightly:jobs.a"))


def test_every_interface_shows_the_source(stage: Stage) -> None:
    run(stage, {"job.backup": job()})
    duetime = stage.time.duetime
    [schedule] = duetime.schedules()
    assert schedule.source == "the file nightly" and schedule.author == "the file nightly (cli)"


def test_a_misspelled_task_is_told_with_the_nearest_one(stage: Stage) -> None:
    with pytest.raises(DuetimeError, match=r"jobs\.x: Unknown task: ecko; did you mean echo\?$"):
        run(stage, {"job.x": job(task="ecko")})
