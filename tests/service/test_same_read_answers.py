"""Reads: every interface lists the same schedules, runs and times, with the same warnings, notes and error codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from duetime import Duetime, DuetimeError
from duetime.engine.clock import MINUTE, SECOND
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.model import RunStatus
from duetime.engine.outcome import Failed
from duetime.engine.validation import NewSchedule
from duetime.mcp.definitions import ToolProblem
from duetime.service.errors import ERRORS
from duetime.service.policy_words import policy_facts
from duetime.stores.base import BaseStore
from tests.support.agent import Agent
from tests.support.browsing import Browser, signed_in, words
from tests.support.cli import Cli
from tests.support.drafts import once
from tests.support.hand import Hand, create
from tests.support.web import Site, site

TIMES = {"start": "tomorrow 00:00", "until": "in 60 hours"}
RULE = "every day at 9:00"
Facts = Mapping[str, Any]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two jobs, of which the second was run twice by hand, and both runs were stopped before they began; and the run
    of a third one that failed after 90 seconds and left no schedule to fire."""
    with site(tmp_path_factory.mktemp("site")) as made:
        for name in ("first", "second"):
            new = NewSchedule("job", name, "cron", {"expression": "0 9 * * *"}, {"task": "echo"}, timezone="UTC")
            made.room.scheduler.create(Caller(LOCAL), new)
        fail_once(made)
        for _ in range(2):
            run = made.room.scheduler.run_now(Caller(LOCAL), ids(made)[-1])
            made.room.scheduler.cancel_run(Caller(LOCAL), run.id)
        yield made


def fail_once(there: Site) -> None:
    store, begin = there.room.store, there.room.clock.now() - 10 * MINUTE
    assert isinstance(store, BaseStore)
    [schedule] = create(store, once(begin, owner=LOCAL, name="import", subject="import", created=begin))
    hand = Hand(store, now=begin)
    hand.record(hand.claim(begin), begin + 90 * SECOND, Failed("shop.example refused", permanent=True))
    there.room.scheduler.delete(Caller(LOCAL), schedule.definition.public_id)


def ids(there: Site) -> list[str]:
    page = there.room.scheduler.search(Caller(LOCAL), _every_one())
    return [each.definition.public_id for each in page.items]


def _every_one() -> Any:
    from duetime.engine.store import ScheduleQuery

    return ScheduleQuery(kind="job")


class Interface:
    """Asks for the same reads, each in the way of one interface, and returns what they have in common."""

    def __init__(self, there: Site, cli: Cli) -> None:
        self.there, self.cli = there, cli
        self.second = ids(there)[-1]


class OverMcp(Interface):
    def _ask(self, tool: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return Agent(self.there.room.services, Caller(LOCAL), "UTC").knows(tool, given or {})

    def schedules(self) -> Facts:
        answer = self._ask("list_jobs")
        return {"ids": {each["job_id"] for each in answer["jobs"]}, "total": answer["total"]}

    def history(self, **given: str) -> Facts:
        return _runs(self._ask("history", {"schedule_id": self.second, **_renamed(given)}))

    def search(self, **given: str) -> Facts:
        return _runs(self._ask("history", _renamed(given)))

    def upcoming(self) -> Facts:
        return _times(self._ask("list_upcoming", {"from": TIMES["start"], "until": TIMES["until"]}))

    def preview(self) -> Facts:
        return _rule(self._ask("preview_schedule", {"when": RULE, "count": 2, "timezone": "Europe/Berlin"}))

    def status(self) -> Facts:
        return _status(self._ask("status"))

    def show(self) -> Facts:
        answer = self._ask("job_status", {"job_id": self.second})
        trigger = {"type": answer["trigger_type"], "timezone": answer["timezone"], **answer["trigger_config"]}
        facts = {"trigger": trigger, "last_error": answer["error"], **dict.fromkeys(ONLY_IN_FULL), **answer}
        return _schedule(facts | {"payload": {"task": answer["task"]}})

    def refusal(self, **given: str) -> str | None:
        try:
            answer = self._ask("history", _renamed(given))
        except (ToolProblem, InvalidInput) as problem:
            return str(problem) and None
        assert answer["error"]
        return None


class OverHttp(Interface):
    def _ask(self, path: str, given: Mapping[str, Any] | None = None, body: Any = None) -> dict[str, Any]:
        headers = self.there.bearer(LOCAL) | ({} if body is None else {"content-type": "application/json"})
        sent = None if body is None else json.dumps(body).encode()
        query = f"?{urlencode(given)}" if given else ""
        reply = self.there.ask("GET" if body is None else "POST", f"/api/v1/{path}{query}", headers, sent)
        answer: dict[str, Any] = json.loads(reply.body)
        return answer | {"http": reply.status}

    def schedules(self) -> Facts:
        answer = self._ask("schedules", {"kind": "job"})
        return {"ids": {each["id"] for each in answer["schedules"]}, "total": answer["total"]}

    def history(self, **given: str) -> Facts:
        return _runs(self._ask("runs", {"schedule": self.second, **_renamed(given)}))

    def search(self, **given: str) -> Facts:
        return _runs(self._ask("runs", _renamed(given)))

    def upcoming(self) -> Facts:
        return _times(self._ask("upcoming", {"from": TIMES["start"], "until": TIMES["until"], "timezone": "UTC"}))

    def preview(self) -> Facts:
        return _rule(self._ask("preview", body={"when": RULE, "count": 2, "timezone": "Europe/Berlin"}))

    def status(self) -> Facts:
        return _status(self._ask("status"))

    def show(self) -> Facts:
        return _schedule(self._ask(f"schedules/{self.second}"))

    def refusal(self, **given: str) -> str | None:
        path = f"schedules/{given['schedule']}/runs" if "schedule" in given else "runs"
        problem = self._ask(path, _renamed(_without(given, "schedule")))
        code = str(problem["type"]).rpartition(":")[2]
        assert problem["http"] == ERRORS[code].status
        return code


class InPython(Interface):
    def _with(self, read: Callable[[Any], Any]) -> Any:
        with closing(Duetime(settings=self.there.room.settings)) as duetime:
            return read(duetime)

    def history(self, **given: str) -> Facts:
        return self._rows(self.second, **given)

    def search(self, **given: str) -> Facts:
        return self._rows(None, **given)

    def _rows(self, id: str | None, **given: str) -> Facts:
        rows = self._with(lambda duetime: duetime.history(id, **given))
        return {"runs": [(each.run_id, each.status) for each in rows], "total": len(rows)}

    def schedules(self) -> Facts:
        rows = self._with(lambda duetime: duetime.schedules(kind="job"))
        return {"ids": {each.id for each in rows}, "total": len(rows)}

    def upcoming(self) -> Facts:
        return _times(self._with(lambda duetime: duetime.upcoming(**TIMES).as_dict()))

    def status(self) -> Facts:
        return _status(self._with(lambda duetime: duetime.server_status().as_dict()))

    def show(self) -> Facts:
        return _schedule(self._with(lambda duetime: duetime.get(self.second).as_dict()))

    def refusal(self, **given: str) -> str | None:
        with pytest.raises(DuetimeError) as raised:
            self._with(lambda duetime: duetime.history(given.get("schedule"), **_without(given, "schedule")))
        return raised.value.code


class OnTerminal(Interface):
    def _ask(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "--json", "--db", self.there.room.settings.db).out)

    def schedules(self) -> Facts:
        answer = self._ask("job", "list")
        return {"ids": {each["id"] for each in answer["jobs"]}, "total": answer["total"]}

    def history(self, **given: str) -> Facts:
        if not given:
            return _runs(self._ask("history", self.second))
        return self.search(schedule=self.second, **given)

    def search(self, **given: str) -> Facts:
        names = {"since": "from"}
        pairs = ((names.get(name, name).replace("_", "-"), value) for name, value in given.items())
        return _runs(self._ask("runs", *(word for name, value in pairs for word in (f"--{name}", value))))

    def upcoming(self) -> Facts:
        return _times(self._ask("upcoming", "--from", TIMES["start"], "--until", TIMES["until"]))

    def show(self) -> Facts:
        return _schedule(self._ask("show", self.second))

    def preview(self) -> Facts:
        return _rule(self.cli("next", RULE, "-n", "2", "--tz", "Europe/Berlin", "--json").document)

    def status(self) -> Facts:
        return _status(self._ask("status"))


class OnPages(Interface):
    """The dashboard, whose pages show every fact in their own form."""

    def _page(self, path: str) -> str:
        reply = _browser(self.there).get(path)
        assert reply.status == 200, reply.body
        return reply.body.decode()

    def schedules(self) -> Facts:
        page = self._page("/schedules?kind=job&view=all")
        [total] = re.findall(r"data-live>(\d+) schedules<", page)
        return {"ids": set(re.findall(r'href="/schedules/(job_\w+)"', page)), "total": int(total)}

    def history(self, **given: str) -> Facts:
        return self._runs(f"/schedules/{self.second}?{urlencode(_renamed(given))}")

    def search(self, **given: str) -> Facts:
        return self._runs(f"/runs?{urlencode(_renamed(given))}")

    def _runs(self, path: str) -> Facts:
        page = self._page(path)
        runs = re.findall(r'href="/runs/(\d+)"><span class="status is-(\w+)"', page)
        return {"runs": [(int(run), status) for run, status in runs], "total": len(runs)}

    def preview(self) -> Facts:
        form = {"kind": "job", "when": "phrase", "phrase": RULE, "timezone": "Europe/Berlin", "intent": "look"}
        page = _browser(self.there).send("/new", form).body.decode()
        expected = OverHttp(self.there, self.cli).preview()
        shown = page.partition('id="preview"')[2].partition("</div>")[0]
        assert "notice" not in shown, "there is no warning"
        assert unescape(re.findall(r'class="reads">([^<]+)<', shown)[0]) == expected["reads_as"]
        times = [datetime.fromisoformat(each) for each in dict.fromkeys(re.findall(r'<time datetime="([^"]+)"', shown))]
        assert times[:2] == [datetime.fromisoformat(each["utc"]) for each in expected["next"]]
        return expected

    def upcoming(self) -> Facts:
        """The first page shows the next time of each schedule."""
        page, over_http = self._page("/").partition("Due next")[2], OverHttp(self.there, self.cli)
        from_now = _times(over_http._ask("upcoming", {"until": TIMES["until"], "timezone": "UTC"}))
        row = r'<tr data-row>.*?datetime="([^"]+)".*?href="/schedules/(\w+)".*?"reads">([^<]+)<'
        rows = re.findall(row, page, re.DOTALL)
        first = from_now["upcoming"][: len(ids(self.there))]
        assert first and [(id, at, f"{english} (UTC)") for at, id, english in rows[: len(first)]] == first
        return over_http.upcoming()

    def status(self) -> Facts:
        page = words(_browser(self.there).get("/settings"))
        expected = OverHttp(self.there, self.cli)._ask("status")
        texts = [each["text"].partition("`")[0] for each in expected["warnings"]]
        assert texts and all(text in page for text in texts)
        return _status(expected)

    def show(self) -> Facts:
        expected = OverHttp(self.there, self.cli).show()
        page = self._page(f"/schedules/{self.second}")
        text = words(_browser(self.there).get(f"/schedules/{self.second}"))
        assert f'<span class="status is-{expected["status"]}">' in page
        assert f'<time datetime="{expected["next_run"]}"' in page
        for fact in (expected["reads_as"], f"runs {expected['run_count']}", "task echo", expected["note"] or ""):
            assert fact in text
        for fact in policy_facts(expected["policy"], expected["policy"]):
            assert f"{fact.label} {fact.value}" in text
        return expected

    def refusal(self, **given: str) -> str | None:
        browser, message = _browser(self.there), ""
        with closing(Duetime(settings=self.there.room.settings)) as duetime, pytest.raises(DuetimeError) as raised:
            duetime.history(given.get("schedule"), **_without(given, "schedule"))  # type: ignore[arg-type]
        message = str(raised.value).partition("; ")[0].replace("since", "from").replace("until", "to")
        if "schedule" in given:
            assert browser.get(f"/schedules/{given['schedule']}").status == 404
        elif not given.keys() <= {"since", "until"}:
            assert message in words(browser.get(f"/runs?{urlencode(given)}"))
        else:
            assert message in words(browser.get(f"/schedules/{self.second}?{urlencode(_renamed(given))}"))
        return None


@cache
def _browser(there: Site) -> Browser:
    return signed_in(there, "UTC")


def _renamed(given: Mapping[str, str]) -> dict[str, str]:
    names = {"since": "from", "until": "to"}
    return {names.get(name, name): value for name, value in given.items()}


def _without(given: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if key != name}


def _runs(answer: Mapping[str, Any]) -> Facts:
    return {"runs": [(each["run_id"], each["status"]) for each in answer["runs"]], "total": answer["total"]}


def _times(answer: Mapping[str, Any]) -> Facts:
    rows = [(each["id"], each["at"], each["reads_as"]) for each in answer["upcoming"]]
    return {"upcoming": rows, "more": answer["more"], "warnings": answer.get("warnings", [])}


ONLY_IN_FULL = ("policy", "failures_in_a_row", "version")
"""What the tool for agents leaves out."""


def _schedule(answer: Mapping[str, Any]) -> Facts:
    names = (
        "name", "status", "state_detail", "trigger", "reads_as", "next_run", "run_count", "last_run", "last_status",
        "last_error", "note", "paused_until", "created_at", "max_runs", *ONLY_IN_FULL,
    )  # fmt: skip
    return {name: answer[name] for name in names} | {"task": answer["payload"]["task"]}


def _rule(answer: Mapping[str, Any]) -> Facts:
    return {name: answer[name] for name in ("reads_as", "timezone", "next", "warnings")}


def _status(answer: Mapping[str, Any]) -> Facts:
    codes = [each["code"] for each in answer["warnings"]]
    return {"topics": answer["topics"], "codes": codes, "failures": answer["failures_of_the_last_day"]["count"]}


INTERFACES = (OverMcp, OverHttp, InPython, OnTerminal, OnPages)


def everywhere(there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, read: str, **given: str) -> list[Any]:
    monkeypatch.chdir(Path(there.room.settings.db).parent)
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
    asked = [interface(there, cli) for interface in INTERFACES if hasattr(interface, read)]
    return [getattr(each, read)(**given) for each in asked]


@pytest.mark.parametrize("read", ["schedules", "show", "history", "upcoming", "preview", "status"])
def test_all_interfaces_answer_alike(there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    first, second, *others = everywhere(there, cli, monkeypatch, read)
    assert len(others) >= 2 and all(each == second for each in others), others
    whole = {name: value for name, value in second.items() if read != "show" or name not in ONLY_IN_FULL}
    assert first == {**dict.fromkeys(second), **whole}
    assert all(second[name] for name in ("runs", "upcoming", "next", "codes", "policy") if name in second)


@pytest.mark.parametrize(
    "given",
    [
        {"status": "cancelled"},
        {"status": "failed"},
        {"status": "failed,cancelled"},
        {"since": "2 hours ago"},
        {"until": "yesterday"},
    ],
)
def test_all_interfaces_select_the_same_runs(
    there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    first, *others = everywhere(there, cli, monkeypatch, "history", **given)
    assert all(each == first for each in others), others
    expected = [RunStatus.CANCELLED] * (0 if given.get("status") == "failed" or "until" in given else 2)
    assert [status for _, status in first["runs"]] == expected


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({"task": "import"}, 1),
        ({"task": "nothing"}, 0),
        ({"error": "SHOP.example"}, 1),
        ({"error": "sho_"}, 0),
        ({"longer_than": "90s"}, 1),
        ({"longer_than": "91s"}, 0),
        ({"shorter_than": "2m"}, 1),
        ({"shorter_than": "1m"}, 0),
        ({"owner": LOCAL}, 3),
        ({"status": "cancelled", "task": "echo"}, 2),
        ({"error": "refused", "kind": "job", "since": "1 hour ago", "until": "5 minutes ago", "status": "failed"}, 1),
        ({"error": "refused", "kind": "prompt"}, 0),
    ],
)
def test_all_interfaces_search_alike(
    there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], number: int
) -> None:
    """An agent sees only its owner's runs anyway."""
    first, *others = everywhere(there, cli, monkeypatch, "search", **_without(given, "owner"))
    if "owner" in given:
        assert all(OverHttp(there, cli).search(**given) == each for each in (first, *others))
    assert len(first["runs"]) == first["total"] == number
    assert len(others) == 4 and all(each == first for each in others), others


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"schedule": "nothing"}, "not_found"),
        ({"since": "tomorrow", "until": "yesterday"}, "invalid"),
        ({"since": "whenever"}, "unreadable_time"),
        ({"kind": "nothing"}, "invalid"),
        ({"longer_than": "soon"}, "invalid"),
        ({"shorter_than": "-1s"}, "invalid"),
    ],
)
def test_all_interfaces_refuse_with_the_same_code(
    there: Site, cli: Cli, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], code: str
) -> None:
    codes = everywhere(there, cli, monkeypatch, "refusal", **given)
    assert [each for each in codes if each is not None] == [code, code]
