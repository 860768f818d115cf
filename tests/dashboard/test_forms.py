"""Schedules made, edited and changed by forms, without a script."""

from __future__ import annotations

import json
import re

import pytest

from duetime.dashboard import schedule_list
from duetime.dashboard.form_fields import timing_values
from duetime.engine.clock import SECOND
from duetime.engine.model import Schedule
from duetime.engine.store import ScheduleQuery
from tests.support.browsing import (
    Browser,
    field,
    filled,
    found,
    made,
    page_of,
    signed_in_as,
    words,
)
from tests.support.web import Site


def made_by(browser: Browser, **fields: str) -> Schedule:
    reply = browser.send("/new", fields)
    assert reply.status == 303, words(reply)
    schedule = browser.site.room.store.find(reply.headers["location"].split("/")[2].partition("?")[0])
    assert schedule is not None
    assert "Created." in browser.follow(reply)
    return schedule


def test_a_job_is_made_by_a_form(local: Browser) -> None:
    schedule = made_by(
        local, kind="job", name="from a form", task="echo", args='["hi"]', when="interval", every="90", unit="minutes",
        timezone="Europe/Berlin", max_attempts="3", timeout_seconds="2.5",
    )  # fmt: skip
    definition = schedule.definition
    assert (definition.kind, definition.name, definition.owner) == ("job", "from a form", "local")
    assert json.loads(definition.payload) == {"task": "echo", "args": ["hi"], "kwargs": {}}
    assert json.loads(definition.policy) == {"max_attempts": 3, "timeout": 2_500_000}
    trigger = json.loads(definition.trigger)
    assert (trigger["period_us"], trigger["timezone"]) == (90 * 60 * SECOND, "Europe/Berlin")


def test_a_prompt_is_made_by_a_form(local: Browser) -> None:
    text = "Water\nthe plants <b>now</b>"
    schedule = made_by(
        local, kind="prompt", prompt=text.replace("\n", "\r\n"), agent="inbox", deliver_to="my-phone", when="rrule",
        rrule="FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
    )  # fmt: skip
    assert schedule.definition.name == "Water the plants <b>now</b>"
    assert json.loads(schedule.definition.payload) == {"prompt": text, "agent": "inbox"}
    assert json.loads(schedule.definition.policy)["deliver_to"] == "my-phone"


def test_a_notification_is_made_by_a_form(local: Browser) -> None:
    schedule = made_by(
        local, kind="notification", message="Now!", topic="my-phone", title="Plants", priority="4",
        tags="seedling, sun", click="https://example.org", when="once", run_at="in 3 hours",
    )  # fmt: skip
    assert json.loads(schedule.definition.payload) == {
        "message": "Now!",
        "topic": "my-phone",
        "title": "Plants",
        "priority": 4,
        "tags": ["seedling", "sun"],
        "click": "https://example.org",
    }
    assert "built-in inbox" in local.text(page_of(schedule)), "where it will arrive is said"


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"task": "nothing", "when": "once", "run_at": "in 1 hour"}, "task", "Unknown task: nothing"),
        ({"task": "ecko", "when": "once", "run_at": "in 1 hour"}, "task", "Unknown task: ecko; did you mean echo?"),
        ({"task": "echo", "args": "[1", "when": "once", "run_at": "in 1 hour"}, "args", "must be JSON such as"),
        ({"task": "echo", "kwargs": "[]", "when": "once", "run_at": "in 1 hour"}, "kwargs", "must be JSON such as"),
        ({"task": "echo", "args": "[1]", "when": "cron", "expression": "61 * * * *"}, "expression", "61 * * * *"),
        ({"task": "echo", "args": "[1]", "when": "interval", "every": "soon"}, "every", "must be a number"),
        ({"task": "echo", "args": "[1]", "when": "interval", "every": "1e999"}, "every", "such as 15"),
        ({"task": "echo", "args": "[1]", "when": "once", "run_at": "2020-01-01"}, "run_at", "in the past"),
        ({"task": "echo", "args": "[1]", "when": "never"}, "when", "choose one of"),
        (
            {"task": "echo", "args": "[1]", "when": "once", "run_at": "in 1 hour", "timezone": "Mars/X"},
            "timezone",
            "Mars/X",
        ),
        (
            {"task": "echo", "args": "[1]", "when": "once", "run_at": "in 1 hour", "max_attempts": "0"},
            "max_attempts",
            "from 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_beside_what_was_typed(
    local: Browser, fields: dict[str, str], name: str, said: str
) -> None:
    reply = local.send("/new", {"kind": "job", "name": "a <b> name", **fields})
    assert reply.status == 422
    assert said in words(reply)
    assert field(reply, "name") == "a <b> name"
    if name != "when":
        assert re.search(rf'name="{name}" aria-invalid="true"', reply.body.decode())


def test_everything_that_is_wrong_is_said_at_once(local: Browser) -> None:
    wrong = {
        "task": "shorten",
        "arg-number-words": "few",
        "when": "cron",
        "expression": "61 9 * * MON",
        "timezone": "Mars/X",
    }
    reply = local.send("/new", {"kind": "job", **wrong, "max_attempts": "0", "timeout_seconds": "soon", "jitter": "5m"})
    page = reply.body.decode()
    assert reply.status == 422
    for said in (
        "text: missing",
        "words: must be a number",
        "the minute cannot be '61'",
        "Unknown time zone",
        "from 1 to",
    ):
        assert said in words(reply), said
    invalid = re.findall(r'name="([a-z_-]+)" aria-invalid="true" aria-describedby="error-[a-z_-]+"( autofocus)?', page)
    names = ["arg-text-text", "arg-number-words", "expression", "timezone", "max_attempts", "timeout_seconds"]
    assert sorted(name for name, _ in invalid) == sorted(names)
    assert [name for name, focus in invalid if focus] == ["arg-text-text"], "the first of them has the focus"
    message = local.send("/new", {"kind": "notification", "topic": "No Topic", "when": "phrase", "phrase": "someday"})
    assert len(re.findall('aria-invalid="true"', message.body.decode())) == 3


def test_arguments_have_fields_of_their_own(served: Site, local: Browser) -> None:
    given = {"arg-text-text": "a b c", "arg-number-words": "2", "when": "phrase", "phrase": "in 1 hour"}
    schedule = made_by(local, kind="job", task="shorten", timeout_seconds="5m", **given)
    stored = json.loads(schedule.definition.payload)
    assert (stored["args"], stored["kwargs"]) == ([], {"text": "a b c", "words": 2})
    assert json.loads(schedule.definition.policy)["timeout"] == 300 * SECOND
    form = filled(local, schedule)
    assert (form["arg-text-text"], form["arg-number-words"], form["kwargs"]) == ("a b c", "2", "")
    assert "Nothing was changed." in local.follow(local.send(page_of(schedule, "edit"), form))
    local.follow(local.send(page_of(schedule, "edit"), {**form, "arg-number-words": "", "kwargs": '{"words": 3}'}))
    assert json.loads(found(served, schedule).definition.payload)["kwargs"] == {"text": "a b c", "words": 3}


def test_switching_the_kind_and_presets_keep_what_was_typed(local: Browser) -> None:
    typed = {"kind": "prompt", "prompt": "Water them", "when": "phrase", "phrase": "every friday at 17:00", "name": "n"}
    switched = local.send("/new", {**typed, "switch": "notification"})
    assert (field(switched, "message"), field(switched, "phrase"), field(switched, "prompt")) == (
        "Water them", "every friday at 17:00", "Water them",
    )  # fmt: skip
    preset = local.send("/new", {**typed, "preset": "weekdays"})
    assert field(preset, "phrase") == "every weekday at 9:00" and "Monday through Friday" in words(preset)
    empty = local.send("/new", {**typed, "when": "rrule", "rrule": "", "intent": "preview"})
    assert "The next times are shown here." in words(empty), "nothing is wrong before something was typed"


def test_prompts_have_limits_and_expire_and_edits_can_start_later(served: Site, local: Browser) -> None:
    given = {
        "prompt": "Look",
        "when": "phrase",
        "phrase": "every hour",
        "untaken": "expire",
        "expire_after_seconds": "2h",
    }
    schedule = made_by(local, kind="prompt", allow='{"web": false}', max_runs_per_day="3", **given)
    assert json.loads(schedule.definition.policy) == {"untaken": "expire", "expire_after": 7_200 * SECOND}
    assert json.loads(schedule.definition.payload)["max_runs_per_day"] == 3
    lonely = local.send("/new", {"kind": "prompt", **given, "expire_after_seconds": ""})
    assert (lonely.status, "go together" in words(lonely)) == (422, True)
    changed = {**filled(local, schedule), "when": "interval", "every": "2", "unit": "hours", "starting": "in 3 days"}
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), changed))
    assert found(served, schedule).progress.next == schedule.progress.next, "the present times apply until then"
    late = local.send(page_of(schedule, "edit"), {**filled(local, schedule), "every": "3", "starting": "whenever"})
    assert (late.status, "New times apply from: could not parse" in words(late)) == (422, True)


@pytest.mark.parametrize(("kind", "missing"), [("job", "task"), ("prompt", "prompt"), ("notification", "message")])
def test_where_nothing_is_said_that_is_what_is_missing(local: Browser, kind: str, missing: str) -> None:
    """Not the name, which may be left empty."""
    reply = local.send("/new", {"kind": kind, "topic": "my-phone", "when": "once", "run_at": "in 1 hour"})
    assert (reply.status, f"{missing.capitalize()}: must not be empty" in words(reply)) == (422, True)
    assert re.search(rf'name="{missing}" aria-invalid="true"', reply.body.decode())


def test_what_is_wrong_with_a_field_is_not_repeated_below_it(local: Browser) -> None:
    given = {
        "kind": "prompt",
        "prompt": "Look",
        "when": "cron",
        "expression": "0 9 * * *",
        "timezone": "Europe/Nowhere",
    }
    problem = "Unknown time zone 'Europe/Nowhere'"
    assert words(local.send("/new", given)).count(problem) == 2, "above the form, and beside the field"
    assert problem in words(local.send("/new", {**given, "intent": "look"})), "while it is typed"


def test_a_form_that_is_sent_twice_makes_one_schedule(served: Site) -> None:
    browser = signed_in_as(served, "twice")
    given = {"kind": "prompt", "prompt": "Once is enough", "when": "once", "run_at": "in 1 hour"}
    form = {**given, "key": field(browser.get("/new?kind=prompt"), "key")}

    def page_made_by(form: dict[str, str]) -> str:
        return browser.send("/new", form).headers["location"].partition("?")[0]

    first, again = page_made_by(form), page_made_by(form)
    assert first == again
    assert page_made_by({**form, "prompt": "Something else"}) != first, "after going back and changing it"
    fresh = field(browser.get("/new?kind=prompt"), "key")
    assert page_made_by({**form, "key": fresh}) != first, "a new form is a new wish"
    refused = browser.send("/new", {**form, "prompt": ""})
    assert field(refused, "key") == form["key"], "nothing was made with it yet"


def test_who_is_usual_is_named_and_what_is_not_as_usual_is_seen(served: Site, local: Browser) -> None:
    assert "Default (inbox)" in local.text("/new?kind=prompt")
    opened = '<details open>\n    <summary><h2 id="how-heading">'
    for policy, open_ in (({}, False), ({"max_attempts": 4}, True)):
        schedule = made(served, "how", policy=policy)
        assert (opened in local.get(page_of(schedule, "edit")).body.decode()) == open_
        assert (re.search(r"attempts at most 4 .*Default policy", local.text(page_of(schedule))) is not None) == open_


def test_a_policy_is_shown_in_words(served: Site, local: Browser) -> None:
    policy = {"max_attempts": 3, "backoff": 5 * SECOND, "timeout": 90 * SECOND, "pause_after": 0, "overlap": "queue"}
    page = local.text(page_of(made(served, "in words", policy=policy)))
    for said in (
        "if the previous run is still active queue it",
        "first retry after 5 s",
        "timeout after 1 min 30 s",
        "pauses itself never",
        "between retries at most 1 h",
    ):
        assert said in page, said


@pytest.mark.parametrize(
    ("kind", "required"),
    [("job", ["task"]), ("prompt", ["prompt"]), ("notification", ["message", "topic"])],
)
def test_a_required_field_is_marked_and_still_checked_by_the_server(
    local: Browser, kind: str, required: list[str]
) -> None:
    page = local.get(f"/new?kind={kind}").body.decode()
    marked = re.findall(r'<(?:input|textarea) id="(\w+)" [^>]*aria-required="true"', page)
    assert marked == [*required, "phrase", "run_at", "every", "expression", "rrule"]
    assert page.count('aria-hidden="true">required<') == len(marked)
    assert not re.search(r"<(?:input|textarea)[^>]* required[ >]", page.partition('id="schedule-form"')[2])


def test_a_kind_that_is_not_created_here_says_how_it_is_created(local: Browser) -> None:
    page = local.text("/new?kind=request")
    assert "The dashboard creates no requests" in page and "duetime request add https://example.org/hook" in page
    assert "Task" not in page
    unknown = local.get("/new?kind=nonsense")
    assert (unknown.status, "There is no kind \u201cnonsense\u201d" in words(unknown)) == (404, True)


def test_as_usual_means_as_usual_for_the_kind(served: Site, local: Browser) -> None:
    """A message does not wait for the one before it, unless somebody wants it to; then that can be taken back."""
    message = {"message": "m", "topic": "my-phone"}
    schedule = made(served, "usual", kind="notification", payload=message, policy={"overlap": "queue"})
    form = filled(local, schedule)
    assert form["overlap"] == "queue"
    local.follow(local.send(page_of(schedule, "edit"), {**form, "overlap": ""}))
    assert json.loads(found(served, schedule).definition.policy)["overlap"] == "allow"
    assert filled(local, schedule)["overlap"] == ""
    assert "overlap allow made" not in local.text(page_of(schedule)), "nothing worth telling"
    local.follow(local.send(page_of(schedule, "edit"), {**filled(local, schedule), "pause_after": "0"}))
    assert filled(local, schedule)["pause_after"] == "0", "none at all is not as usual"


def test_what_is_typed_is_explained_to_the_second_and_the_year(local: Browser) -> None:
    """The part of the form that a script puts in place: no other words than without it."""
    asked = {"kind": "job", "intent": "look", "when": "cron", "expression": "*/10 * * * * *", "timezone": "UTC"}
    reply = local.send("/new", asked)
    assert reply.body.lstrip().startswith(b'<div id="preview"')
    assert len(set(re.findall(r"\b\d\d:\d\d(?::\d0)?\b", words(reply)))) == 5
    yearly = local.send("/new", {**asked, "expression": "0 9 1 1 *"})
    years = [int(year) for year in re.findall(r"1 Jan (\d{4}) 09:00", words(yearly))]
    assert len(years) >= 4, "the first may be tomorrow, which is said in that word"
    assert years == list(range(years[0], years[0] + len(years)))


def test_a_preview_without_a_script(local: Browser) -> None:
    asked = {
        "kind": "job",
        "intent": "preview",
        "when": "cron",
        "expression": "30 1 * * *",
        "timezone": "America/New_York",
    }
    reply = local.send("/new", asked)
    assert reply.status == 200
    page = words(reply)
    assert "at 01:30" in page
    assert page.count("01:30 America/New_York") == 5
    assert "clocks" in page.lower()
    broken = local.send("/new", {**asked, "expression": "x"})
    assert (broken.status, "Invalid cron expression: x" in words(broken)) == (200, True)


def test_an_edit_changes_what_was_changed_and_nothing_else(served: Site, local: Browser) -> None:
    trigger = ("cron", {"expression": "*/7 * * * *", "end": "2030-01-01", "jitter": 3})
    schedule = made(served, "before", trigger, policy={"max_attempts": 2})
    form = filled(local, schedule)
    assert "Nothing was changed." in local.follow(local.send(page_of(schedule, "edit"), form))
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), {**form, "name": "after"}))
    renamed = found(served, schedule)
    assert renamed.definition.name == "after"
    assert renamed.definition.trigger == schedule.definition.trigger
    assert renamed.definition.policy == schedule.definition.policy
    form = filled(local, schedule)
    local.follow(local.send(page_of(schedule, "edit"), {**form, "expression": "0 6 * * *", "timezone": "Asia/Tokyo"}))
    moved = json.loads(found(served, schedule).definition.trigger)
    kept = json.loads(schedule.definition.trigger)
    assert moved == {**kept, "expression": "0 6 * * *", "timezone": "Asia/Tokyo"}


@pytest.mark.parametrize(
    ("trigger", "phrase"),
    [
        (("event", {"event": "form.push"}), "on form.push"),
        (("event", {"event": "*", "at_most_every": 600}), "on * at most every 10m"),
        (
            (
                "event",
                {
                    "event": "form.*",
                    "where": {"n": ["*"], "ref": ["a b", "c/d"], "who": "*", "x": 'y"z'},
                    "at_most_every": 90,
                },
            ),
            """on form.* where n = "*" and ref = "a b" or c/d and who = * and x = 'y"z' at most every 90s""",
        ),
        (("event", {"event": "form.age", "where": {"a": ["under 5", "6"]}}), 'on form.age where a = "under 5" or 6'),
        (("event", {"event": "form.age", "where": {"a": "the 'old'"}}), "on form.age where a = \"the 'old'\""),
        (("after", {"schedule": "waited for", "at_most_every": "1 d"}), "after waited for succeeds at most every 24h"),
        (("after", {"schedule": "waited for", "outcome": "fails"}), "after waited for fails"),
    ],
)
def test_what_waits_is_edited_in_words(
    served: Site, local: Browser, trigger: tuple[str, dict[str, object]], phrase: str
) -> None:
    if not served.room.store.search(ScheduleQuery(name="waited for")).items:
        made(served, "waited for")
    schedule = made(served, "it waits", trigger)
    form = filled(local, schedule)
    assert (form["when"], form["phrase"]) == ("phrase", phrase)
    assert "Nothing was changed." in local.follow(local.send(page_of(schedule, "edit"), form))
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), {**form, "name": "renamed"}))
    renamed = found(served, schedule)
    assert (renamed.definition.name, renamed.definition.trigger) == ("renamed", schedule.definition.trigger)
    assert renamed.progress.next == schedule.progress.next
    form = {**filled(local, schedule), "timezone": "Asia/Tokyo"}
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), form)), "the phrase is read again"
    stored = json.loads(schedule.definition.trigger)
    assert json.loads(found(served, schedule).definition.trigger) == {**stored, "timezone": "Asia/Tokyo"}
    local.follow(local.send(page_of(schedule, "edit"), {**filled(local, schedule), "phrase": "on form.other"}))
    other = json.loads(found(served, schedule).definition.trigger)
    assert (other["event"], "where" in other, "cooldown_us" in other) == ("form.other", False, False)


def test_a_limit_can_be_added_to_what_waits_for_an_event(served: Site, local: Browser) -> None:
    trigger = ("event", {"event": "form.push"})
    schedule = made(served, "limited", trigger, kind="notification", payload={"message": "m", "topic": "my-phone"})
    form = {**filled(local, schedule), "phrase": "on form.push at most every 10m"}
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), form))


@pytest.mark.parametrize(
    "config",
    [
        {"event": "friday"},
        {"event": "deploy", "where": {"title": "the 'old' \"new\""}},
        {"event": "deploy", "where": {"title": "a  b"}},
        {"event": "deploy", "where": {"a=b": "1"}},
    ],
)
def test_what_no_phrase_means_is_not_shown_as_one(served: Site, local: Browser, config: dict[str, object]) -> None:
    schedule = made(served, "no phrase", ("event", config))
    form = filled(local, schedule)
    assert form["phrase"] == ""
    assert "Saved." in local.follow(local.send(page_of(schedule, "edit"), {**form, "name": "renamed"}))
    local.send(page_of(schedule, "edit"), {**form, "timezone": "Asia/Tokyo"})
    after = found(served, schedule).definition
    assert (after.name, after.trigger) == ("renamed", schedule.definition.trigger)


@pytest.mark.parametrize("stored", ['{"type":"event","timezone":"UTC"}', '{"type":"odd"}', "[]"])
def test_what_waits_for_nothing_readable_is_given_a_new_rule_in_words(stored: str) -> None:
    values = timing_values(stored)
    assert (values["when"], values["phrase"]) == ("phrase", "")


def test_an_interval_keeps_what_it_is_counted_from(served: Site, local: Browser) -> None:
    schedule = made(served, "counted", ("interval", {"days": 2}))
    form = filled(local, schedule)
    assert (form["every"], form["unit"]) == ("2", "days")
    local.follow(local.send(page_of(schedule, "edit"), {**form, "end": "2035-01-01"}))
    edited = json.loads(found(served, schedule).definition.trigger)
    assert edited["anchor"] == json.loads(schedule.definition.trigger)["anchor"]


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"hours": 24}, ("24", "hours")),
        ({"weeks": 2}, ("2", "weeks")),
        ({"days": 1, "hours": 12}, ("36", "hours")),
        ({"seconds": 1.5}, ("1.5", "seconds")),
    ],
)
def test_an_interval_is_shown_in_a_unit_that_means_the_same(
    served: Site, local: Browser, config: dict[str, float], shown: tuple[str, str]
) -> None:
    form = filled(local, made(served, "counted", ("interval", config)))
    assert (form["every"], form["unit"]) == shown


def test_a_window_is_edited_in_the_form(served: Site, local: Browser) -> None:
    schedule = made(served, "windowed", ("interval", {"minutes": 90, "between": "09:00-17:00", "weekdays": "mon-fri"}))
    form = filled(local, schedule)
    assert (form["between"], form["weekdays"]) == ("09:00-17:00", "mon,tue,wed,thu,fri")
    local.follow(local.send(page_of(schedule, "edit"), {**form, "between": "08:00-12:00"}))
    edited = json.loads(found(served, schedule).definition.trigger)
    assert (edited["between"], edited["weekdays"]) == ("08:00-12:00", "mon,tue,wed,thu,fri")


def test_words_are_previewed_in_the_form(local: Browser) -> None:
    fields = {
        "kind": "job",
        "when": "phrase",
        "phrase": "every weekday at 8:30",
        "timezone": "UTC",
        "intent": "preview",
    }
    assert "at 08:30 on Monday through Friday (UTC)" in words(local.send("/new", fields))


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        (
            "on nosuch.thing at most every 10m",
            "on the event nosuch.thing, at most every 10 minutes No event nosuch.thing",
        ),
        ("after previewed succeeds", "after previewed succeeds"),
    ],
)
def test_what_waits_is_previewed_in_words(served: Site, local: Browser, phrase: str, said: str) -> None:
    if "after" in phrase:
        made(served, "previewed")
    shown = words(local.send("/new", {"kind": "job", "when": "phrase", "phrase": phrase, "intent": "look"}))
    assert shown.startswith(said) and "The next times" not in shown


def test_warnings_are_told_after_a_create_and_an_edit(served: Site, local: Browser) -> None:
    given = {"kind": "job", "task": "echo", "args": '["hi"]', "when": "phrase", "phrase": "on nosuch.thing"}
    created = local.send("/new", given)
    warning = "No event nosuch.thing has arrived yet; it fires when one does."
    page = local.follow(created)
    assert "Created." in page and page.count(warning) == 1
    assert page.count("No worker is running") == 1, "which the page says anyway"
    assert warning not in signed_in_as(served, "else", scopes=["operator"]).follow(created)
    schedule = served.room.store.find(created.headers["location"].split("/")[2].partition("?")[0])
    assert schedule is not None and warning not in local.text(page_of(schedule)), "once"
    edited = {**filled(local, schedule), "phrase": "on nosuch.other"}
    assert "No event nosuch.other has" in local.follow(local.send(page_of(schedule, "edit"), edited))


def test_two_people_do_not_overwrite_each_other(served: Site, local: Browser) -> None:
    schedule = made(served, "contended")
    first, second = filled(local, schedule), filled(local, schedule)
    local.follow(local.send(page_of(schedule, "edit"), {**first, "name": "mine"}))
    late = local.send(page_of(schedule, "edit"), {**second, "name": "theirs"})
    assert late.status == 409
    assert field(late, "name") == "theirs", "nothing that was typed is lost"
    assert found(served, schedule).definition.name == "mine"


# -- changing ---------------------------------------------------------------------------------------------------------


def test_pause_resume_run_cancel_and_delete(served: Site, local: Browser) -> None:
    schedule = made(served, "through its life")
    assert "Paused: nothing fires" in local.follow(local.send(page_of(schedule, "pause"), {}))
    assert found(served, schedule).progress.state == "paused"
    assert "Resumed." in local.follow(local.send(page_of(schedule, "resume"), {}))
    assert "It runs now." in local.follow(local.send(page_of(schedule, "run"), {}))
    asked = local.text(page_of(schedule, "cancel"))
    assert "It stays in the lists, from where it can be restored." in asked
    assert found(served, schedule).progress.state == "active", "to ask does nothing"
    assert "Cancelled." in local.follow(local.send(page_of(schedule, "cancel"), {}))
    assert "it can be restored for a day" in local.text(page_of(schedule, "delete"))
    deleted = local.send(page_of(schedule, "delete"), {})
    assert deleted.headers["location"] == "/schedules?did=deleted", "what is left to look at"
    assert "Deleted" in local.follow(deleted)
    assert local.send(page_of(schedule, "pause"), {}).status == 404
    assert local.get(page_of(schedule, "edit")).status == 404
    assert local.send(page_of(made(served, "x"), "explode"), {}).status == 404


def test_a_pause_with_an_end_says_when_it_ends(served: Site, local: Browser) -> None:
    schedule = made(served, "it pauses")
    paused = local.send(page_of(schedule, "pause"), {"until": "tomorrow 9:00", "note": "wait"})
    assert "Paused: nothing fires until tomorrow 09:00." in local.follow(paused)
    other = signed_in_as(served, "else", scopes=["operator"])
    assert "Paused: nothing fires until the time that you chose." in other.follow(paused)
    assert "paused wait until tomorrow 09:00" in local.text("/schedules?view=paused&text=it+pauses")
    local.send(page_of(schedule, "pause"), {})
    assert "until tomorrow" not in local.text("/schedules?view=paused&text=it+pauses")


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_who_ends_what_others_follow_is_told(served: Site, local: Browser, action: str) -> None:
    first = made(served, f"first to {action}")
    for name in ("second", "third"):
        made(served, name, ("after", {"schedule": first.definition.public_id}))
    said = "Schedules that follow it have no further runs: second, third."
    assert said in local.text(page_of(first, action))
    assert "that follow it" not in local.text(page_of(first, "pause"))
    asked = local.send("/schedules", [("id", first.definition.public_id), ("action", "cancel")])
    assert "schedules that follow it have no further runs: second, third" in words(asked)
    assert said in local.follow(local.send(page_of(first, action), {}))
    assert "Schedules that follow it run again: second, third." in local.follow(
        local.send(page_of(first, "restore"), {})
    )


def test_what_was_deleted_leaves_its_history(served: Site, local: Browser) -> None:
    schedule = made(served, "was here")
    local.send(page_of(schedule, "run"), {})
    local.send(page_of(schedule, "delete"), {})
    page = local.get(page_of(schedule))
    assert page.status == 200
    assert "It was deleted and will not fire again" in words(page)
    assert "cancelled \u2013 the schedule was deleted" in words(page), "what became of its run"
    assert "echo" not in words(page), "what it did is gone"
    assert re.findall(rb'method="post" action="([^"]*)"', page.body.partition(b"<main")[2]) == [
        page_of(schedule, "restore").encode(),
        b"/runs",
    ], "all that can be done with it and its runs"
    local.send(page_of(schedule, "restore"), {})
    assert "Restore" not in words(local.get(page_of(schedule)))
    assert "echo" in words(local.get(page_of(schedule)))
    local.send(page_of(schedule, "delete"), {})
    assert signed_in_as(served, "stranger").get(page_of(schedule)).status == 404


def test_what_is_not_possible_says_why(served: Site, local: Browser) -> None:
    schedule = made(served, "over")
    local.send(page_of(schedule, "cancel"), {})
    reply = local.send(page_of(schedule, "pause"), {})
    assert (reply.status, "cancelled" in words(reply)) == (409, True)


def test_many_at_a_time(served: Site) -> None:
    browser = signed_in_as(served, "bulk")
    chosen = [made(served, f"bulk {number}", owner="bulk") for number in range(3)]
    foreign = made(served, "not yours", owner="other")
    pairs = [("id", each.definition.public_id) for each in (*chosen, foreign)]
    page = browser.follow(browser.send("/schedules", [*pairs, ("action", "pause")]))
    assert f"3 schedules paused. Not paused: {foreign.definition.public_id}: there is no such schedule." in page
    assert {found(served, each).progress.state for each in chosen} == {"paused"}
    assert found(served, foreign).progress.state == "active"
    asked = browser.send("/schedules", [*pairs, ("action", "cancel")])
    assert (asked.status, "Cancel 3 schedules?" in words(asked)) == (200, True)
    assert {found(served, each).progress.state for each in chosen} == {"paused"}
    browser.send("/schedules", [*pairs, ("action", "cancel"), ("sure", "yes")])
    assert {found(served, each).progress.state for each in chosen} == {"cancelled"}
    assert browser.send("/schedules", [*pairs, ("action", "burn")]).status == 422


def test_what_could_not_be_changed_is_named_with_its_reason(served: Site) -> None:
    browser = signed_in_as(served, "sorter")
    chosen = [made(served, f"entry {number}", owner="sorter") for number in range(6)]
    for each in chosen[1:]:
        browser.send(page_of(each, "cancel"), {})
    pairs = [("id", each.definition.public_id) for each in chosen]
    partly = browser.send("/schedules", [*pairs[:2], ("action", "pause")])
    why = "it is cancelled, so it cannot be"
    assert f"1 schedule paused. Not paused: entry 1: {why} paused." in browser.follow(partly)
    assert "1 schedule paused. Not paused: 1 schedule." in signed_in_as(served, "curious").follow(partly)
    none = browser.follow(browser.send("/schedules", [*pairs[1:], ("action", "resume")]))
    assert f"Nothing was resumed. Not resumed: entry 1, entry 2, entry 3 and 2 more: {why} resumed." in none


def test_of_too_many_only_so_many_are_changed(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_list, "MOST_CHOSEN", 2)
    chosen = [made(served, f"one of many {number}", owner="greedy") for number in range(3)]
    pairs = [("id", each.definition.public_id) for each in chosen]
    browser = signed_in_as(served, "greedy")
    assert "2 schedules paused." in browser.follow(browser.send("/schedules", [*pairs, ("action", "pause")]))
    assert [found(served, each).progress.state for each in chosen] == ["paused", "paused", "active"]


def test_what_is_done_to_many_leads_back_to_the_same_list(served: Site) -> None:
    browser = signed_in_as(served, "back")
    chosen = [("id", made(served, f"here {number}", owner="back").definition.public_id) for number in range(2)]
    made(served, "another", owner="back")
    back = field(browser.get("/schedules?view=all&text=here&kind=job&did=saved"), "back")
    page = browser.follow(browser.send("/schedules", [*chosen, ("back", back), ("action", "pause")]))
    assert "2 schedules paused." in page
    assert "2 schedules" in page
    assert "another" not in page
    asked = browser.send("/schedules", [*chosen, ("back", back), ("action", "cancel")])
    assert 'href="/schedules?view=all&amp;text=here&amp;kind=job">Keep them' in asked.body.decode()
    again = [*chosen, ("back", field(asked, "back")), ("action", "cancel"), ("sure", "yes")]
    assert (
        browser.send("/schedules", again).headers["location"].startswith("/schedules?view=all&text=here&kind=job&did=")
    )
    strange = [*chosen, ("back", "https://evil.example/?x=1&did=deleted"), ("action", "pause")]
    assert browser.send("/schedules", strange).headers["location"].startswith("/schedules?did=paused&")


@pytest.mark.parametrize("path", ["/schedules", "/dead-letters"])
def test_nothing_chosen_is_said(local: Browser, path: str) -> None:
    action = "pause" if path == "/schedules" else "dismiss"
    reply = local.send(path, [("back", "kind=job"), ("action", action)])
    assert reply.headers["location"] == f"{path}?kind=job&did=nothing"
    thing = "schedule" if path == "/schedules" else "run"
    assert f"Select at least one {thing} first" in local.follow(reply)
