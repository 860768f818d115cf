"""The five interfaces, each with every operation on schedules of every kind, for tests that compare them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import quote

from duetime import Duetime
from duetime.engine.kind import LOCAL, Caller
from duetime.kinds import load_specs
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import browser_of
from tests.support.cli import Answer, Cli
from tests.support.web import Site

CRON, OTHER_CRON = "0 9 * * *", "0 10 * * *"
PAYLOADS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["hello"], "kwargs": {}},
    "prompt": {"prompt": "water the plants"},
    "notification": {"message": "hi", "topic": "alerts"},
    "request": {"url": "https://hooks.example.org/a"},
}
EDITS: dict[str, dict[str, Any]] = {
    "job": {"task": "echo", "args": ["bye"]},
    "prompt": {"prompt": "water them"},
    "notification": {"message": "bye"},
    "request": {"url": "https://hooks.example.org/b"},
}
"""Payload fields that an edit replaces."""


class Shown(NamedTuple):
    """What every interface shows of a single schedule."""

    name: str
    reads_as: str
    next_run: str


def _shown(answer: Mapping[str, Any]) -> Shown:
    return Shown(answer["name"], answer["reads_as"], answer["next_run"])


class Interface(ABC):
    """One way to reach Duetime. Every public method is an operation of the table. Methods that read return what they
    show: ids of schedules, numbers of runs, or times of day."""

    def __init__(self, there: Site, cli: Cli) -> None:
        self._there, self._cli = there, cli

    @abstractmethod
    def create(self, kind: str) -> None: ...

    @abstractmethod
    def edit(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def pause(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def resume(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def cancel(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def delete(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def restore_schedule(self, kind: str, id: str) -> None:
        """Take back that a schedule was cancelled or deleted."""

    @abstractmethod
    def shift(self, kind: str, id: str) -> None:
        """Move its times by an hour."""

    @abstractmethod
    def delete_finished(self, kind: str, **idle: str) -> None:
        """Delete the schedules of a kind that are over, or those of them with `older_than`."""

    @abstractmethod
    def run_now(self, kind: str, id: str) -> None: ...

    @abstractmethod
    def run_by_force(self, kind: str, id: str) -> None:
        """Run a schedule now, whatever its condition says."""

    @abstractmethod
    def stop(self, kind: str, id: str) -> None:
        """Stop the runs of a schedule."""

    @abstractmethod
    def stop_run(self, kind: str, run: int) -> None:
        """Stop one run."""

    @abstractmethod
    def stop_after(self, kind: str, run: int) -> None:
        """Stop a run when it has run for ten minutes."""

    @abstractmethod
    def retry(self, kind: str, run: int) -> None: ...

    @abstractmethod
    def resolve(self, kind: str, run: int) -> None:
        """Take a dead letter off the list."""

    @abstractmethod
    def resolve_matching(self, kind: str, error: str) -> None:
        """Resolve all failed runs of a kind with this text in their error."""

    @abstractmethod
    def reopen(self, kind: str, run: int) -> None:
        """Put a dead letter back on the list, after finding it among those that were resolved."""

    @abstractmethod
    def attention(self, kind: str) -> set[str]:
        """Return the keys of what needs attention."""

    @abstractmethod
    def resolve_incident(self, kind: str, key: str) -> None: ...

    @abstractmethod
    def reopen_incident(self, kind: str, key: str) -> None: ...

    @abstractmethod
    def history(self, kind: str, id: str) -> set[int]: ...

    @abstractmethod
    def history_by_status(self, kind: str, id: str) -> set[int]:
        """Return the runs that failed or were cancelled."""

    @abstractmethod
    def list(self, kind: str) -> set[str]: ...

    @abstractmethod
    def show(self, kind: str, id: str) -> Shown: ...

    @abstractmethod
    def upcoming(self, kind: str) -> set[str]: ...

    @abstractmethod
    def preview(self, kind: str, id: str) -> set[str]:
        """Return the times of day at which OTHER_CRON would fire."""


class Mcp(Interface):
    def _use(self, tool: str, **given: Any) -> dict[str, Any]:
        answer = Agent(self._there.room.services, Caller(LOCAL), "UTC").knows(tool, **given)
        assert not answer.get("error"), answer
        return answer

    def create(self, kind: str) -> None:
        trigger = {"trigger_type": "cron", "trigger_config": {"expression": CRON}}
        tools: dict[str, tuple[str, dict[str, Any]]] = {
            "job": ("schedule_job", {"name": "same", "task": "echo", "args": ["hello"], **trigger}),
            "prompt": ("schedule", {**PAYLOADS["prompt"], "cron": CRON}),
            "notification": (
                "schedule_cron_notification",
                {"message": "hi", "notification_topic": "alerts", "cron": CRON, "timezone": "UTC"},
            ),
        }
        tool, given = tools[kind]
        self._use(tool, **given)

    def edit(self, kind: str, id: str) -> None:
        fields = {"payload": EDITS[kind]} if kind == "request" else EDITS[kind]
        self._use("edit_schedule", schedule_id=id, cron=OTHER_CRON, **fields)

    def pause(self, kind: str, id: str) -> None:
        answer = self._use("pause_schedule", schedule_id=id, until="in 2 days", note="holiday")
        assert (answer["kind"], answer["next_run"], answer["note"]) == (kind, None, "holiday")

    def resume(self, kind: str, id: str) -> None:
        assert self._use("resume_schedule", schedule_id=id)["next_run"] is not None

    def cancel(self, kind: str, id: str) -> None:
        assert self._use("change_schedules", action="cancel", ids=[id], expected_count=1)["changed"] == 1

    def delete(self, kind: str, id: str) -> None:
        self._use("delete_schedule", schedule_id=id)

    def restore_schedule(self, kind: str, id: str) -> None:
        [row] = self._use("change_schedules", action="restore", ids=[id])["schedules"]
        assert row["kind"] == kind and row["next_run"] is not None

    def shift(self, kind: str, id: str) -> None:
        assert self._use("change_schedules", action="shift", ids=[id], shift="1h")["changed"] == 1

    def delete_finished(self, kind: str, **idle: str) -> None:
        chosen = {"action": "delete", "kind": kind, "status": "finished", **idle}
        number = self._use("change_schedules", **chosen, dry_run=True)["matched"]
        assert self._use("change_schedules", **chosen, expected_count=number)["changed"] == number

    def run_now(self, kind: str, id: str) -> None:
        assert self._use("run_now", schedule_id=id)["run"]["kind"] == kind

    def run_by_force(self, kind: str, id: str) -> None:
        assert self._use("run_now", schedule_id=id, force=True)["run"]["kind"] == kind

    def stop(self, kind: str, id: str) -> None:
        answer = self._use("stop_run", schedule_id=id)
        assert (answer["schedule_id"], answer["kind"]) == (id, kind) and answer["next_run"] is not None

    def stop_run(self, kind: str, run: int) -> None:
        [stopped] = self._use("stop_run", run_id=run)["stopped"]
        assert (stopped["run_id"], stopped["status"]) == (run, "cancelled")

    def stop_after(self, kind: str, run: int) -> None:
        answer = self._use("stop_run", run_id=run, after="10m")
        assert (answer["stopped_count"], answer["requested_count"]) == (0, 1)

    def retry(self, kind: str, run: int) -> None:
        assert self._use("run_now", run_id=run)["run"]["run_id"] == run

    def resolve(self, kind: str, run: int) -> None:
        assert self._use("mark_runs", run_ids=[run], mark="resolve") == {"marked": 1}

    def resolve_matching(self, kind: str, error: str) -> None:
        rows = self._use("history", kind=kind, status="failed", error=error)["runs"]
        ids = [each["run_id"] for each in rows]
        assert self._use("mark_runs", run_ids=ids, mark="resolve") == {"marked": len(ids)}

    def reopen(self, kind: str, run: int) -> None:
        assert self._use("mark_runs", run_ids=[run], mark="reopen") == {"marked": 1}

    def attention(self, kind: str) -> set[str]:
        return {each["key"] for each in self._use("status")["problems"] if each["status"] == "open"}

    def resolve_incident(self, kind: str, key: str) -> None:
        assert self._use("mark_runs", run_ids=[key], mark="resolve") == {"marked": 1}

    def reopen_incident(self, kind: str, key: str) -> None:
        assert self._use("mark_runs", run_ids=[key], mark="reopen") == {"marked": 1}

    def history(self, kind: str, id: str) -> set[int]:
        return {each["run_id"] for each in self._use("history", schedule_id=id)["runs"]}

    def history_by_status(self, kind: str, id: str) -> set[int]:
        return {each["run_id"] for each in self._use("history", schedule_id=id, status="failed,cancelled")["runs"]}

    def list(self, kind: str) -> set[str]:
        lists = {
            "job": ("list_jobs", "jobs", "job_id"),
            "prompt": ("schedule_list", "tasks", "id"),
            "notification": ("list_scheduled_notifications", "schedules", "schedule_id"),
        }
        if kind not in lists:  # programs make them; an agent sees what is to come of them
            return self.upcoming(kind)
        tool, rows, id = lists[kind]
        return {str(each[id]) for each in self._use(tool)[rows]}

    def show(self, kind: str, id: str) -> Shown:
        return _shown(self._use("job_status", job_id=id))

    def upcoming(self, kind: str) -> set[str]:
        return {str(each["id"]) for each in self._use("list_upcoming", kind=kind, count=100)["upcoming"]}

    def preview(self, kind: str, id: str) -> set[str]:
        shown = self._use("preview_schedule", trigger_type="cron", trigger_config={"expression": OTHER_CRON})
        return _clocks(shown["next"])


class Http(Interface):
    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {**self._there.bearer(LOCAL), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        reply = self._there.ask(method, f"/api/v1{path}", headers, data)
        assert reply.status < 300, reply.body
        return json.loads(reply.body or b"null")

    def create(self, kind: str) -> None:
        trigger = {"type": "cron", "expression": CRON}
        body = {"kind": kind, "name": "same", "trigger": trigger, "payload": PAYLOADS[kind]}
        self._ask("POST", "/schedules", body)

    def edit(self, kind: str, id: str) -> None:
        trigger = {"type": "cron", "expression": OTHER_CRON}
        self._ask("PATCH", f"/schedules/{id}", {"trigger": trigger, "payload": {**PAYLOADS[kind], **EDITS[kind]}})

    def pause(self, kind: str, id: str) -> None:
        shape = self._ask("POST", f"/schedules/{id}/pause?until=in+2+days&note=holiday")
        assert shape["status"] == "paused" and shape["paused_until"] and shape["note"] == "holiday"

    def resume(self, kind: str, id: str) -> None:
        assert self._ask("POST", f"/schedules/{id}/resume")["status"] == "pending"

    def cancel(self, kind: str, id: str) -> None:
        self._ask("POST", f"/schedules/{id}/cancel")

    def delete(self, kind: str, id: str) -> None:
        self._ask("DELETE", f"/schedules/{id}")

    def restore_schedule(self, kind: str, id: str) -> None:
        assert self._ask("POST", f"/schedules/{id}/restore")["status"] == "pending"

    def shift(self, kind: str, id: str) -> None:
        body = {"action": "shift", "ids": [id], "shift": "1h"}
        assert self._ask("POST", "/schedules/change", body)["changed"] == 1

    def delete_finished(self, kind: str, **idle: str) -> None:
        chosen = {"action": "delete", "kind": kind, "status": "finished", **idle}
        number = self._ask("POST", "/schedules/change", {**chosen, "dry_run": True})["matched"]
        assert self._ask("POST", "/schedules/change", {**chosen, "expected_count": number})["changed"] == number

    def run_now(self, kind: str, id: str) -> None:
        assert self._ask("POST", f"/schedules/{id}/run")["schedule"] == id

    def run_by_force(self, kind: str, id: str) -> None:
        assert self._ask("POST", f"/schedules/{id}/run?force=true")["schedule"] == id

    def stop(self, kind: str, id: str) -> None:
        answer = self._ask("POST", f"/schedules/{id}/stop")
        assert [run["schedule"] for run in answer["runs"]] == [id] == [answer["schedule"]["id"]]

    def stop_run(self, kind: str, run: int) -> None:
        assert self._ask("POST", f"/runs/{run}/cancel")["status"] == "cancelled"

    def stop_after(self, kind: str, run: int) -> None:
        assert self._ask("POST", f"/runs/{run}/cancel?after=10m")["status"] == "running"

    def retry(self, kind: str, run: int) -> None:
        assert self._ask("POST", f"/runs/{run}/retry")["run_id"] == run

    def resolve(self, kind: str, run: int) -> None:
        assert self._ask("POST", f"/dead/{run}/resolve")["run_id"] == run

    def resolve_matching(self, kind: str, error: str) -> None:
        chosen = {"action": "resolve", "kind": kind, "error": error}
        planned = self._ask("POST", "/runs/change", {**chosen, "dry_run": True})["runs"]
        assert self._ask("POST", "/runs/change", chosen)["runs"] == planned != []

    def reopen(self, kind: str, run: int) -> None:
        found = self._ask("GET", f"/dead?kind={kind}&text=it+broke&dismissed=true")["runs"]
        assert run in {each["run_id"] for each in found}
        assert self._ask("POST", f"/dead/{run}/reopen")["run_id"] == run

    def attention(self, kind: str) -> set[str]:
        return {each["key"] for each in self._ask("GET", "/attention")["attention"]}

    def resolve_incident(self, kind: str, key: str) -> None:
        assert self._ask("POST", "/attention/resolve", {"ids": [key]}) == {"marked": 1, "notes": []}

    def reopen_incident(self, kind: str, key: str) -> None:
        assert key in {each["key"] for each in self._ask("GET", "/attention?resolved=true")["attention"]}
        assert self._ask("POST", "/attention/reopen", {"ids": [key]}) == {"marked": 1, "notes": []}

    def history(self, kind: str, id: str) -> set[int]:
        return {each["run_id"] for each in self._ask("GET", f"/schedules/{id}/runs")["runs"]}

    def history_by_status(self, kind: str, id: str) -> set[int]:
        found = self._ask("GET", f"/runs?schedule={id}&status=failed,cancelled")["runs"]
        return {each["run_id"] for each in found}

    def list(self, kind: str) -> set[str]:
        return {each["id"] for each in self._ask("GET", f"/schedules?kind={kind}&limit=1000")["schedules"]}

    def show(self, kind: str, id: str) -> Shown:
        return _shown(self._ask("GET", f"/schedules/{id}"))

    def upcoming(self, kind: str) -> set[str]:
        return {each["id"] for each in self._ask("GET", f"/upcoming?kind={kind}&count=100")["upcoming"]}

    def preview(self, kind: str, id: str) -> set[str]:
        trigger = {"type": "cron", "expression": OTHER_CRON}
        return _clocks(self._ask("POST", "/preview", {"trigger": trigger, "timezone": "UTC"})["next"])


class CommandLine(Interface):
    def _call(self, *arguments: str) -> Answer:
        done = self._cli(*arguments)
        assert done.code == 0, done.out + done.err
        return done

    def _run(self, kind: str, *arguments: str) -> Answer:
        return self._call(load_specs()[kind].command, *arguments)

    def create(self, kind: str) -> None:
        given = {
            "job": ("same", "--task", "echo", "--arg", "hello"),
            "prompt": ("water the plants",),
            "notification": ("hi", "--topic", "alerts"),
        }
        self._run(kind, "add", *given[kind], "--cron", CRON)

    def edit(self, kind: str, id: str) -> None:
        given = {
            "job": ("--arg", "bye"),
            "prompt": ("--text", "water them"),
            "notification": ("--message", "bye"),
            "request": ("--url", "https://hooks.example.org/b"),
        }
        self._run(kind, "edit", id, "--cron", OTHER_CRON, *given[kind])

    def pause(self, kind: str, id: str) -> None:
        self._run(kind, "pause", id, "--until", "in 2 days", "--note", "holiday")

    def resume(self, kind: str, id: str) -> None:
        self._run(kind, "resume", id)

    def cancel(self, kind: str, id: str) -> None:
        self._run(kind, "cancel", id)

    def delete(self, kind: str, id: str) -> None:
        self._run(kind, "delete", id)

    def restore_schedule(self, kind: str, id: str) -> None:
        assert "next   " in self._run(kind, "restore", id).out

    def shift(self, kind: str, id: str) -> None:
        assert self._call("change", "shift", id, "--by", "1h", "--json").document["changed"] == 1

    def delete_finished(self, kind: str, **idle: str) -> None:
        options = [word for value in idle.values() for word in ("--older-than", value)]
        self._call("change", "delete", "--kind", kind, "--status", "finished", *options, "--yes")

    def run_now(self, kind: str, id: str) -> None:
        assert self._run(kind, "run", id, "--json").document["id"] == id

    def run_by_force(self, kind: str, id: str) -> None:
        assert self._run(kind, "run", id, "--force", "--json").document["id"] == id

    def stop(self, kind: str, id: str) -> None:
        assert len(self._run(kind, "stop", id, "--json").document["runs"]) == 1

    def stop_run(self, kind: str, run: int) -> None:
        assert f"Run {run} of same is cancelled." in self._call("run", "stop", str(run)).out

    def stop_after(self, kind: str, run: int) -> None:
        assert "is asked to stop at" in self._call("runs", "stop", str(run), "--after", "10m").out

    def retry(self, kind: str, run: int) -> None:
        assert self._call("dead", "retry", str(run), "--json").document["retried"] == [run]

    def resolve(self, kind: str, run: int) -> None:
        assert self._call("dead", "resolve", str(run), "--json").document["resolved"] == [run]

    def resolve_matching(self, kind: str, error: str) -> None:
        chosen = "runs", "resolve", "--kind", kind, "--error", error, "--json"
        planned = self._call(*chosen, "--dry-run").document["resolved"]
        assert self._call(*chosen, "--expected", str(len(planned))).document["resolved"] == planned != []

    def reopen(self, kind: str, run: int) -> None:
        found = self._call("dead", "list", "--kind", kind, "--text", "IT BROKE", "--resolved", "--json").document
        assert run in {each["run_id"] for each in found["dead"]}
        assert self._call("dead", "reopen", str(run), "--json").document["reopened"] == [run]

    def attention(self, kind: str) -> set[str]:
        return {each["key"] for each in self._call("attention", "list", "--json").document["attention"]}

    def resolve_incident(self, kind: str, key: str) -> None:
        assert self._call("attention", "resolve", key).out == "Resolved 1 row.\n"

    def reopen_incident(self, kind: str, key: str) -> None:
        assert f"attention reopen {key}" in self._call("attention", "list", "--resolved").out.replace("\n", " ")
        assert self._call("attention", "reopen", key).out == "Reopened 1 row.\n"

    def history(self, kind: str, id: str) -> set[int]:
        return {each["run_id"] for each in self._run(kind, "history", id, "--json").document["runs"]}

    def history_by_status(self, kind: str, id: str) -> set[int]:
        found = self._call("runs", "list", "--status", "failed,cancelled", "--limit", "1000", "--json").document["runs"]
        return {each["run_id"] for each in found if each["schedule"] == id}

    def list(self, kind: str) -> set[str]:
        found = self._run(kind, "list", "--all", "--json").document
        return {each["id"] for each in found[load_specs()[kind].plural]}

    def show(self, kind: str, id: str) -> Shown:
        return _shown(self._call("show", id, "--json").document)

    def upcoming(self, kind: str) -> set[str]:
        found = self._call("upcoming", "--kind", kind, "--count", "100", "--json").document
        return {each["id"] for each in found["upcoming"]}

    def preview(self, kind: str, id: str) -> set[str]:
        return _clocks(self._call("next", OTHER_CRON, "--tz", "UTC", "--json").document["next"])


class Dashboard(Interface):
    def _send(self, path: str, **fields: str) -> None:
        browser, proof = browser_of(self._there)
        reply = browser.send(path, {**fields, "csrf": proof})
        assert reply.status == 303, reply.body

    def _links(self, page: str, pattern: str) -> set[str]:
        reply = browser_of(self._there)[0].get(page)
        assert reply.status == 200, reply.body
        return set(re.findall(pattern, reply.body.decode()))

    def create(self, kind: str) -> None:
        own = {
            "job": {"name": "same", "task": "echo", "args": '["hello"]'},
            "prompt": PAYLOADS["prompt"],
            "notification": PAYLOADS["notification"],
        }
        self._send("/new", kind=kind, when="cron", expression=CRON, timezone="UTC", **own[kind])

    def _edit_form(self, kind: str) -> dict[str, str]:
        shown = {
            "job": {"task": "echo", "args": '["bye"]'},
            "prompt": {"prompt": "water them"},
            "notification": {"message": "bye", "topic": "alerts"},
            "request": {"payload": json.dumps(EDITS["request"])},
        }
        form = {"name": "same", "when": "cron", "expression": OTHER_CRON, "timezone": "UTC", "version": "1"}
        return {**form, **shown[kind]}

    def edit(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/edit", **self._edit_form(kind))

    def pause(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/pause", until="in 2 days", note="holiday")

    def resume(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/resume")

    def cancel(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/cancel")

    def delete(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/delete")

    def restore_schedule(self, kind: str, id: str) -> None:
        assert self._links(f"/schedules/{id}", r'action="(/schedules/[^"]+/restore)"'), "there is a button for it"
        self._send(f"/schedules/{id}/restore")

    def shift(self, kind: str, id: str) -> None:
        raise NotImplementedError

    def delete_finished(self, kind: str, **idle: str) -> None:
        raise NotImplementedError

    def run_now(self, kind: str, id: str) -> None:
        self._send(f"/schedules/{id}/run")

    def run_by_force(self, kind: str, id: str) -> None:
        assert self._links(f"/schedules/{id}", "(Run without its condition)"), "there is a button for it"
        self._send(f"/schedules/{id}/run", force="on")

    def stop(self, kind: str, id: str) -> None:
        assert self._links(f"/schedules/{id}", r'action="(/schedules/[^"]+/stop)"'), "there is a button for it"
        self._send(f"/schedules/{id}/stop")

    def stop_run(self, kind: str, run: int) -> None:
        self._send(f"/runs/{run}/cancel")

    def stop_after(self, kind: str, run: int) -> None:
        raise NotImplementedError

    def retry(self, kind: str, run: int) -> None:
        self._send(f"/runs/{run}/retry")

    def resolve(self, kind: str, run: int) -> None:
        self._send("/dead-letters", run=str(run), action="resolve")

    def resolve_matching(self, kind: str, error: str) -> None:
        browser, proof = browser_of(self._there)
        fields = {"all": "resolve", "back": f"kind={kind}&error={quote(error)}"}
        question = browser.send("/runs", {**fields, "csrf": proof}).body.decode()
        [number] = re.findall(r'name="sure" value="(\d+)"', question)
        self._send("/runs", **fields, sure=number)

    def reopen(self, kind: str, run: int) -> None:
        page = f"/dead-letters?kind={kind}&text=it+broke&show=dismissed"
        assert str(run) in self._links(page, r'href="/runs/(\d+)"')
        self._send("/dead-letters", run=str(run), action="reopen", back="show=dismissed")

    def attention(self, kind: str) -> set[str]:
        return self._links("/", r'formaction="/attention/([^"]+)/resolve"')

    def resolve_incident(self, kind: str, key: str) -> None:
        self._send(f"/attention/{key}/resolve")

    def reopen_incident(self, kind: str, key: str) -> None:
        self._send(f"/attention/{key}/reopen")

    def history(self, kind: str, id: str) -> set[int]:
        return {int(run) for run in self._links(f"/schedules/{id}", r'href="/runs/(\d+)')}

    def history_by_status(self, kind: str, id: str) -> set[int]:
        raise NotImplementedError

    def list(self, kind: str) -> set[str]:
        return self._links(f"/schedules?kind={kind}&order=newest", r'href="/schedules/([^/"?#]+)"')

    def show(self, kind: str, id: str) -> Shown:
        page = browser_of(self._there)[0].get(f"/schedules/{id}").body.decode()
        parts = (r"<h1>([^<]+)</h1>", r'<p class="lead">([^<]+)</p>', r'"first-next"><time datetime="([^"]+)"')
        return Shown(*(re.findall(each, page)[0] for each in parts))

    def upcoming(self, kind: str) -> set[str]:
        return self._links("/", r'href="/schedules/([^/"?#]+)"')

    def preview(self, kind: str, id: str) -> set[str]:
        shown = browser_of(self._there)[0].send(f"/schedules/{id}/edit", {**self._edit_form(kind), "intent": "look"})
        assert shown.status == 200, shown.body
        return set(re.findall(r"T(\d\d:\d\d)", shown.body.decode()))


class Python(Interface):
    def _duetime(self) -> Duetime:
        return Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))

    def create(self, kind: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.create(kind, PAYLOADS[kind], name="same", cron=CRON)

    def edit(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.edit(id, payload={**PAYLOADS[kind], **EDITS[kind]}, cron=OTHER_CRON)

    def pause(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.pause(id, until="in 2 days", note="holiday")

    def resume(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.resume(id)

    def cancel(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.cancel(id)

    def delete(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            duetime.delete(id)

    def restore_schedule(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.restore(id).status == "pending"

    def shift(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.change_many("shift", [id], shift="1h").changed == 1

    def delete_finished(self, kind: str, **idle: str) -> None:
        chosen: dict[str, Any] = {"kind": kind, "status": "finished", **idle}
        with closing(self._duetime()) as duetime:
            number = len(duetime.change_many("delete", **chosen, dry_run=True).matched)
            assert duetime.change_many("delete", **chosen, expected_count=number).changed == number

    def run_now(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.run_now(id).schedule == id

    def run_by_force(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.run_now(id, force=True).schedule == id

    def stop(self, kind: str, id: str) -> None:
        with closing(self._duetime()) as duetime:
            assert [run.schedule for run in duetime.stop_runs(id)] == [id]

    def stop_run(self, kind: str, run: int) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.cancel_run(run).status == "cancelled"

    def stop_after(self, kind: str, run: int) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.cancel_run(run, after="10m").stopping is False

    def retry(self, kind: str, run: int) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.retry(run).run_id == run

    def resolve(self, kind: str, run: int) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.dead_letters.resolve(run).run_id == run

    def resolve_matching(self, kind: str, error: str) -> None:
        with closing(self._duetime()) as duetime:
            planned = duetime.change_runs("resolve", kind=kind, error=error, dry_run=True)
            resolved = duetime.change_runs("resolve", kind=kind, error=error)
            assert [each.run_id for each in resolved] == [each.run_id for each in planned] != []

    def reopen(self, kind: str, run: int) -> None:
        with closing(self._duetime()) as duetime:
            found = duetime.dead_letters.runs(kind=kind, text="it broke", dismissed=True)
            assert run in {each.run_id for each in found}
            assert duetime.dead_letters.reopen(run).run_id == run

    def attention(self, kind: str) -> set[str]:
        with closing(self._duetime()) as duetime:
            return {each.key for each in duetime.attention() if each.key}

    def resolve_incident(self, kind: str, key: str) -> None:
        with closing(self._duetime()) as duetime:
            assert duetime.resolve(key) == 1

    def reopen_incident(self, kind: str, key: str) -> None:
        with closing(self._duetime()) as duetime:
            assert key in {each.key for each in duetime.attention(resolved=True)}
            assert duetime.reopen(key) == 1

    def history(self, kind: str, id: str) -> set[int]:
        with closing(self._duetime()) as duetime:
            return {each.run_id for each in duetime.history(id)}

    def history_by_status(self, kind: str, id: str) -> set[int]:
        with closing(self._duetime()) as duetime:
            return {each.run_id for each in duetime.history(id, status="failed,cancelled")}

    def list(self, kind: str) -> set[str]:
        with closing(self._duetime()) as duetime:
            return {each.id for each in duetime.schedules(kind=kind)}

    def show(self, kind: str, id: str) -> Shown:
        with closing(self._duetime()) as duetime:
            return _shown(duetime.get(id).as_dict())

    def upcoming(self, kind: str) -> set[str]:
        with closing(self._duetime()) as duetime:
            return {each.id for each in duetime.upcoming(kind=kind, count=100).upcoming}

    def preview(self, kind: str, id: str) -> set[str]:
        with closing(self._duetime()) as duetime:
            return _clocks(duetime.preview(cron=OTHER_CRON).as_dict()["next"])


def _clocks(moments: Any) -> set[str]:
    """Return the times of day of a preview."""
    return {each["local"][11:16] for each in moments}
