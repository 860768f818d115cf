"""Tags find and change schedules on every interface, and say where their alerts go. Those of a notification are
something else."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from duetime import Duetime
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL, Caller
from duetime.engine.policy.options import ALERTS
from duetime.engine.store import ScheduleQuery
from duetime.engine.validation import NewSchedule
from duetime.mcp.definitions import ToolProblem
from duetime.settings import NotificationSettings, Settings
from duetime.testing import Simulation
from tests.service.test_alerts import EVENING, pass_time, tasks
from tests.support.agent import Agent
from tests.support.browsing import signed_in
from tests.support.cli import Cli
from tests.support.web import Site, site

CRON = "0 9 * * *"


def create(there: Site, kind: str, name: str, payload: dict[str, Any], owner: str = LOCAL, **policy: Any) -> str:
    new = NewSchedule(kind, name, "cron", {"expression": CRON}, payload, policy, timezone="UTC")
    return there.room.scheduler.create(Caller(owner), new).definition.public_id


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as opened:
        create(opened, "job", "copy", {"task": "echo"}, tagged=["backup", "nightly"])
        create(opened, "notification", "tell", {"topic": "x", "message": "hi", "tags": ["backup"]}, tagged=["nightly"])
        create(opened, "job", "plain", {"task": "echo"})
        create(opened, "job", "bobs", {"task": "echo"}, "bob", tagged=["nightly"])
        for name in ("copy", "plain"):
            run = opened.room.scheduler.run_now(Caller(LOCAL), id_of(opened, name))
            opened.room.scheduler.cancel_run(Caller(LOCAL), run.id)
        yield opened


def id_of(there: Site, name: str) -> str:
    [schedule] = there.room.store.search(ScheduleQuery(name=name)).items
    return schedule.definition.public_id


class Interface(ABC):
    """Returns names of schedules."""

    def __init__(self, there: Site, cli: Cli) -> None:
        self.there, self.cli = there, cli

    @abstractmethod
    def listed(self, tag: str) -> set[str]: ...

    @abstractmethod
    def upcoming(self, tag: str) -> set[str]: ...

    @abstractmethod
    def ran(self, tag: str) -> set[str]: ...

    @abstractmethod
    def paused(self, tag: str) -> set[str]: ...


class Rest(Interface):
    def _get(self, path: str, key: str) -> set[str]:
        reply = self.there.ask("GET", f"/api/v1{path}", self.there.bearer(LOCAL))
        if reply.status == 422:
            raise InvalidInput(reply.body.decode())
        return {each["name"] for each in reply.json[key]}

    def listed(self, tag: str) -> set[str]:
        return self._get(f"/schedules?tagged={tag}", "schedules")

    def upcoming(self, tag: str) -> set[str]:
        return self._get(f"/upcoming?tagged={tag}", "upcoming")

    def ran(self, tag: str) -> set[str]:
        return self._get(f"/runs?tagged={tag}", "runs")

    def paused(self, tag: str) -> set[str]:
        headers = {**self.there.bearer(LOCAL), "Content-Type": "application/json"}
        body = json.dumps({"action": "pause", "tagged": tag}).encode()
        reply = self.there.ask("POST", "/api/v1/schedules/change", headers, body)
        assert reply.status == 200, reply.body
        return {each["name"] for each in reply.json["schedules"]}


class CommandLine(Interface):
    def _names(self, key: str, *arguments: str) -> set[str]:
        printed = self.cli(*arguments, "--json")
        if printed.code != 0:
            raise InvalidInput(printed.out + printed.err)
        rows = json.loads(printed.out)[key]
        return {each["name"] for each in rows if each.get("owner", LOCAL) == LOCAL}  # it sees all owners

    def listed(self, tag: str) -> set[str]:
        return self._names("schedules", "list", "--tagged", tag)

    def upcoming(self, tag: str) -> set[str]:
        return self._names("upcoming", "upcoming", "--tagged", tag)

    def ran(self, tag: str) -> set[str]:
        return self._names("runs", "runs", "list", "--tagged", tag)

    def paused(self, tag: str) -> set[str]:
        return self._names("schedules", "change", "pause", "--tagged", tag)


class Python(Interface):
    def _with(self, read: Callable[[Duetime], Any]) -> set[str]:
        with closing(Duetime(settings=Settings(db=self.there.room.settings.db, timezone="UTC"))) as duetime:
            rows = [each if isinstance(each, dict) else each.as_dict() for each in read(duetime)]
            return {each["name"] for each in rows if each.get("owner", LOCAL) == LOCAL}  # it sees all owners

    def listed(self, tag: str) -> set[str]:
        return self._with(lambda duetime: duetime.schedules(tagged=tag))

    def upcoming(self, tag: str) -> set[str]:
        return self._with(lambda duetime: duetime.upcoming(tagged=tag).upcoming)

    def ran(self, tag: str) -> set[str]:
        return self._with(lambda duetime: duetime.history(tagged=tag))

    def paused(self, tag: str) -> set[str]:
        return self._with(lambda duetime: duetime.change_many("pause", tagged=tag).matched)


class Mcp(Interface):
    def _ask(self, tool: str, key: str, **arguments: Any) -> set[str]:
        answer = Agent(self.there.room.services, Caller(LOCAL), "UTC").knows(tool, **arguments)
        if "error" in answer:
            raise InvalidInput(answer["error"])
        return {each["name"] for each in answer[key]}

    def listed(self, tag: str) -> set[str]:
        return self._ask("change_schedules", "schedules", action="pause", dry_run=True, tagged=tag)

    def upcoming(self, tag: str) -> set[str]:
        return self._ask("list_upcoming", "upcoming", tagged=tag)

    def ran(self, tag: str) -> set[str]:
        return self._ask("history", "runs", tagged=tag)

    def paused(self, tag: str) -> set[str]:
        return self._ask("change_schedules", "schedules", action="pause", tagged=tag)


INTERFACES: dict[str, Callable[[Site, Cli], Interface]] = {
    each.__name__: each for each in (Rest, CommandLine, Python, Mcp)
}


@pytest.mark.parametrize("name", INTERFACES)
def test_every_interface_finds_and_changes_by_tag(there: Site, on_site: Cli, name: str) -> None:
    interface = INTERFACES[name](there, on_site)
    assert interface.listed("nightly") == {"copy", "tell"}
    assert interface.listed("backup") == interface.upcoming("backup") == interface.ran("backup") == {"copy"}
    assert interface.upcoming("nightly") == {"copy", "tell"}
    assert interface.ran("nightly") == {"copy"} and interface.listed("other") == set()
    for read in (interface.listed, interface.upcoming, interface.ran):
        with pytest.raises((InvalidInput, ToolProblem), match="a tag has lowercase"):
            read("Nightly")
    try:
        assert interface.paused("nightly") == {"copy", "tell"}
        assert interface.upcoming("nightly") == set()
    finally:
        there.room.scheduler.resume(Caller(LOCAL), id_of(there, "copy"))
        there.room.scheduler.resume(Caller(LOCAL), id_of(there, "tell"))
    bobs = there.room.store.find(id_of(there, "bobs"))
    assert bobs is not None and bobs.progress.state == "active"


def test_the_list_of_a_kind_and_deleted_schedules(there: Site, on_site: Cli) -> None:
    printed = on_site("job", "list", "--tagged", "nightly", "--json")
    assert {each["name"] for each in json.loads(printed.out)["jobs"]} == {"copy", "bobs"}
    id = create(there, "job", "gone", {"task": "echo"}, tagged=["old"])
    there.room.scheduler.delete(Caller(LOCAL), id)
    restored = on_site("change", "restore", "--tagged", "old", "--json")
    assert [each["name"] for each in json.loads(restored.out)["schedules"]] == ["gone"], restored
    there.room.scheduler.delete(Caller(LOCAL), id)


def test_the_dashboard_shows_tags_that_lead_to_the_list(there: Site) -> None:
    browser = signed_in(there, "UTC")
    page = browser.get(f"/schedules/{id_of(there, 'copy')}").body.decode()
    links = re.findall(r'class="tag" href="([^"]+)"', page)
    assert links == ["/schedules?view=all&amp;tagged=backup", "/schedules?view=all&amp;tagged=nightly"]
    listed = browser.get(links[0].replace("&amp;", "&")).body.decode()
    rows = re.findall(r'aria-label="Select ([^"]+)"', listed)
    assert "copy" in rows and not {"tell", "plain", "bobs"} & {*rows}
    assert 'value="backup"' in listed and 'class="tag"' in listed
    matching = {"action": "pause", "matching": "1", "back": "tagged=backup"}
    assert browser.send("/schedules", matching).status == 303
    copy = there.room.store.find(id_of(there, "copy"))
    assert copy is not None and copy.progress.state == "paused"
    there.room.scheduler.resume(Caller(LOCAL), id_of(there, "copy"))


def test_tags_of_a_notification_stay_what_they_were(there: Site, on_site: Cli) -> None:
    """`tags` is what a phone shows with the message."""
    arguments = ("tea", "--topic", "home", "--cron", CRON, "--tag", "coffee", "--tagged", "breaks")
    added = json.loads(on_site("notify", "add", *arguments, "--json").out)
    schedule = there.room.store.find(added["id"])
    assert schedule is not None
    assert (json.loads(schedule.definition.payload)["tags"], schedule.definition.policy) == (
        ["coffee"],
        '{"max_attempts":10,"overlap":"allow","tagged":",breaks,"}',
    )


# -- alerts ----------------------------------------------------------------------------------------------------------


def messages(now: Simulation) -> list[tuple[str, str, str, list[str]]]:
    """Return topic, title, text and tags of the messages about what goes wrong, oldest first."""
    found = now.duetime.app.store.search(ScheduleQuery(kind="notification", limit=1000)).items
    payloads = [json.loads(each.definition.payload) for each in found]
    return [(each["topic"], each["title"], each["message"], each["tags"]) for each in payloads]


def simulation(failing: list[bool], **topics: str) -> Simulation:
    settings = Settings(db=":memory:", timezone="UTC", notifications=NotificationSettings(alerts_by_tag=topics))
    return Simulation(EVENING, settings=settings, registry=tasks(failing))


def test_a_tag_sends_alerts_to_its_topic_and_is_named_in_them() -> None:
    failing = [True]
    with simulation(failing, backup="ops", web="web-team") as now:
        hour = timedelta(hours=1)
        now.duetime.schedule("water", every=hour, name="a", tagged=["web", "backup"])
        now.duetime.schedule("water", every=hour, name="b", tagged=["other", "run-5"])
        now.duetime.schedule("water", every=hour, name="c")
        pass_time(now, hours=1)
        [ops, usual] = sorted(messages(now), reverse=True)
        assert ops[:3] == ("ops", "a failed", "RuntimeError: no water in tank 7\nTags: backup, web")
        assert ops[3][2:] == ["backup", "web"] and ops[3][1].startswith("run-")
        error = "RuntimeError: no water in tank 7"
        assert usual[:2] == (ALERTS, "2 problems need attention")
        assert usual[2] == f"b failed [other, run-5]: {error}\nc failed: {error}"
        assert usual[3][2:] == ["other"], "a tag is not taken for a run"
        failing.clear()
        pass_time(now, hours=1)
        pass_time(now, minutes=5)
        assert {each[:2] for each in messages(now)[2:]} == {("ops", "a works again"), (ALERTS, "2 problems are over")}


def test_what_needs_attention_has_tags(there: Site, on_site: Cli) -> None:
    with simulation([True]) as now:
        for name, tags in {"a": ["x", "y"], "b": []}.items():
            now.duetime.schedule("water", every=timedelta(hours=1), name=name, tagged=tags)
        pass_time(now, hours=1)
        assert {each.name: each.tags for each in now.duetime.attention()} == {"a": ["x", "y"], "b": []}
        assert [each.name for each in now.duetime.attention(tagged="x")] == ["a"]
        with pytest.raises(InvalidInput, match="a tag has lowercase"):
            now.duetime.attention(tagged="X")
    printed = json.loads(on_site("attention", "list", "--tagged", "nightly", "--json").out)
    reply = there.ask("GET", "/api/v1/attention?tagged=nightly", there.bearer(LOCAL))
    assert printed["attention"] == reply.json["attention"] == []


@pytest.mark.parametrize("topics", [{"Backup": "ops"}, {"backup": "Not A Topic"}])
def test_a_setting_that_could_not_work_is_refused(topics: dict[str, str]) -> None:
    from duetime.settings.loading import problems_of

    settings = Settings(notifications=NotificationSettings(alerts_by_tag=topics))
    assert [problem for _, problem in problems_of(settings) if "alerts_by_tag" in problem]
