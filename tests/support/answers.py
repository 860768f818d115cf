"""What each of the five interfaces says about a change of a schedule or of a run, for tests that compare them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from duetime import Duetime, DuetimeError
from duetime.engine.kind import LOCAL, Caller
from duetime.settings import Settings
from tests.support.agent import Agent
from tests.support.browsing import browser_of, words
from tests.support.cli import Cli
from tests.support.web import Reply, Site

UNTIL, NOTE = "2098-01-05 9:00", "holiday"
SHIFT, AFTER = "30m", "10m"
IN_ROWS = {"cancel": "cancelled", "restore_schedule": "pending", "shift": "pending"}
"""Changes of one schedule that are changes of many over MCP, with its status afterwards."""
FIELDS = {"args": ["other"]}
"""The input of a run that is started again."""
FACTS: Mapping[str, tuple[str, ...]] = {
    "pause": ("status", "note", "paused_until", "falls_into_pause"),
    "resume": ("status", "next_run", "limits"),
    "cancel": ("status", "next_run"),
    "delete": (),
    "restore_schedule": ("status", "next_run"),
    "shift": ("next_run",),
    "change_many": ("matched", "changed", "failed"),
    "run_now": ("status",),
    "again": ("status",),
    "retry": ("status",),
    "stop": ("status",),
    "stop_run": ("status",),
    "stop_after": ("status",),
    "resolve": (),
    "reopen": (),
    "resolve_incident": (),
    "reopen_incident": (),
}
"""The changes, and what an answer says about each."""


class Target(NamedTuple):
    id: str
    """The id or the name of a schedule, or the key of an incident."""
    run: int = 0
    others: tuple[str, ...] = ()
    """Further ids, for a change of many."""


class Said(NamedTuple):
    """What an interface says about a change."""

    facts: dict[str, Any]
    codes: list[str]
    notes: str = ""


class Refusal(NamedTuple):
    """What an interface says about what it refuses, as far as it says it: not each has codes."""

    message: str
    code: str | None = None
    exit: int | None = None
    status: int | None = None


class Interface(ABC):
    """One way to reach Duetime, as the operator or, where that is possible, as somebody else."""

    knows_callers = True

    def __init__(self, there: Site, cli: Cli, owner: str = LOCAL) -> None:
        self._there, self._cli, self._owner = there, cli, owner

    @abstractmethod
    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        """Make a change. A page says everything in its own form, so that it is compared with what is expected."""

    def _facts(self, operation: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {name: answer.get(name) for name in FACTS[operation]}


def _many(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {**answer, "failed": [(each["id"], each["error"]) for each in answer["failed"]]}


class Mcp(Interface):
    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        id, run, others = target
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "pause": ("pause_schedule", {"schedule_id": id, "until": UNTIL, "note": NOTE}),
            "resume": ("resume_schedule", {"schedule_id": id}),
            "cancel": ("change_schedules", {"action": "cancel", "ids": [id], "expected_count": 1}),
            "delete": ("delete_schedule", {"schedule_id": id}),
            "restore_schedule": ("change_schedules", {"action": "restore", "ids": [id]}),
            "shift": ("change_schedules", {"action": "shift", "ids": [id], "shift": SHIFT}),
            "change_many": ("change_schedules", {"action": "pause", "ids": [id, *others]}),
            "run_now": ("run_now", {"schedule_id": id}),
            "again": ("run_now", {"run_id": run, "fields": FIELDS}),
            "retry": ("run_now", {"run_id": run}),
            "stop": ("stop_run", {"schedule_id": id}),
            "stop_run": ("stop_run", {"run_id": run}),
            "stop_after": ("stop_run", {"run_id": run, "after": AFTER}),
            "resolve": ("mark_runs", {"run_ids": [run], "mark": "resolve"}),
            "reopen": ("mark_runs", {"run_ids": [run], "mark": "reopen"}),
            "resolve_incident": ("mark_runs", {"run_ids": [id], "mark": "resolve"}),
            "reopen_incident": ("mark_runs", {"run_ids": [id], "mark": "reopen"}),
        }
        tool, arguments = calls[operation]
        caller = Caller(self._owner, operator=self._owner == LOCAL)
        answer = Agent(self._there.room.services, caller, "UTC").knows(tool, arguments)
        if "error" in answer:
            return Refusal(answer["error"])
        if operation in IN_ROWS:
            [row] = answer["schedules"]
            answer = {**row, "status": IN_ROWS[operation] if answer["changed"] == 1 else None}
        elif operation == "change_many":
            answer = _many(answer)
        elif "paused" in answer:
            answer["status"] = "paused" if answer["paused"] else "pending"
        else:
            answer["status"] = next(
                (each["status"] for each in [answer.get("run"), *answer.get("stopped", [])] if each), 0
            )
        notes = (
            answer.get("confirmation", "") if "stopped" in answer else answer.get("note", "") if "run" in answer else ""
        )
        notes = notes.partition(" It has not ended yet")[0].partition("It has not ended yet; history")[0]
        return Said(self._facts(operation, answer), answer.get("warning_codes", []), notes)


class Http(Interface):
    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        id, run, others = target
        method, path, body = {
            "pause": ("POST", f"schedules/{id}/pause?until={UNTIL.replace(' ', '+')}&note={NOTE}", None),
            "resume": ("POST", f"schedules/{id}/resume", None),
            "cancel": ("POST", f"schedules/{id}/cancel", None),
            "delete": ("DELETE", f"schedules/{id}", None),
            "restore_schedule": ("POST", f"schedules/{id}/restore", None),
            "shift": ("POST", "schedules/change", {"action": "shift", "ids": [id], "shift": SHIFT}),
            "change_many": ("POST", "schedules/change", {"action": "pause", "ids": [id, *others]}),
            "run_now": ("POST", f"schedules/{id}/run", None),
            "again": ("POST", f"runs/{run}/again", {"fields": FIELDS}),
            "retry": ("POST", f"runs/{run}/retry", None),
            "stop": ("POST", f"schedules/{id}/stop", None),
            "stop_run": ("POST", f"runs/{run}/cancel", None),
            "stop_after": ("POST", f"runs/{run}/cancel?after={AFTER}", None),
            "resolve": ("POST", f"dead/{run}/resolve", None),
            "reopen": ("POST", f"dead/{run}/reopen", None),
            "resolve_incident": ("POST", "attention/resolve", {"ids": [id]}),
            "reopen_incident": ("POST", "attention/reopen", {"ids": [id]}),
        }[operation]
        headers = {**self._there.bearer(self._owner), "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        reply = self._there.ask(method, f"/api/v1/{path}", headers, sent)
        if reply.status >= 400:
            return Refusal(reply.json["detail"], reply.json["type"].rpartition(":")[2], status=reply.status)
        answer: dict[str, Any] = json.loads(reply.body or b"{}")
        if operation == "change_many":
            answer = _many(answer)
        if operation == "shift":
            [answer] = answer["schedules"]
        notes = answer.get("confirmation") or " ".join(answer.get("notes", []))
        if operation == "stop":
            answer["status"] = answer["runs"][0]["status"]
        return Said(self._facts(operation, answer), answer.get("warning_codes", []), notes)


class Python(Interface):
    knows_callers = False

    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        with closing(Duetime(settings=Settings(db=self._there.room.settings.db, timezone="UTC"))) as duetime:
            try:
                answer: Any = self._call(duetime, operation, target)
            except DuetimeError as error:
                return Refusal(str(error), error.code)
            if operation == "change_many":
                return Said(self._facts(operation, _many(answer.facts())), [])
            if operation == "shift":
                return Said(self._facts(operation, answer.matched[0]), [])
            runs_or_schedule = answer[0] if isinstance(answer, list) else answer
            facts = runs_or_schedule.as_dict()
            return Said(self._facts(operation, facts), facts.get("warning_codes", []), " ".join(facts.get("notes", [])))

    def _call(self, duetime: Duetime, operation: str, target: Target) -> object:
        id, run, others = target
        match operation:
            case "pause":
                return duetime.pause(id, until=UNTIL, note=NOTE)
            case "resume" | "cancel" | "delete" | "run_now" | "restore_schedule":
                return getattr(duetime, operation.removesuffix("_schedule"))(id)
            case "shift":
                return duetime.change_many("shift", [id], shift=SHIFT)
            case "change_many":
                return duetime.change_many("pause", [id, *others])
            case "again":
                return duetime.run_again(run, fields=FIELDS)
            case "retry":
                return duetime.retry(run)
            case "stop":
                return duetime.stop_runs(id)
            case "stop_run" | "stop_after":
                return duetime.cancel_run(run, **({"after": AFTER} if operation == "stop_after" else {}))
            case "resolve_incident" | "reopen_incident":
                assert getattr(duetime, operation.partition("_")[0])(id) == 1
                rows = duetime.attention(resolved=operation == "resolve_incident")
                return next(each for each in rows if each.key == id)
            case _:
                return getattr(duetime.dead_letters, operation)(run)


class CommandLine(Interface):
    knows_callers = False

    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        id, run, others = target.id, str(target.run), target.others
        command = {
            "pause": ("pause", id, "--until", UNTIL, "--note", NOTE),
            "delete": ("delete", id, "--yes"),
            "restore_schedule": ("restore", id),
            "shift": ("change", "shift", id, "--by", SHIFT),
            "stop_after": ("runs", "stop", run, "--after", AFTER),
            "change_many": ("change", "pause", id, *others),
            "run_now": ("run", id),
            "again": ("runs", "again", run, *(f"--set={name}={json.dumps(value)}" for name, value in FIELDS.items())),
            "stop_run": ("runs", "stop", run),
            **{name: ("dead", name, run) for name in ("retry", "resolve", "reopen")},
            **{f"{name}_incident": ("attention", name, id) for name in ("resolve", "reopen")},
        }.get(operation, (operation, id))
        done = self._cli(*command, "--json")
        answer = done.document
        error = answer.get("error")  # a run has one, too
        refused = error if isinstance(error, dict) else next(iter(answer.get("refused", [])), None)
        if refused:
            return Refusal(refused["message"], refused["code"], exit=done.code)
        if operation == "change_many":
            answer = _many(answer)
        if operation == "shift":
            [answer] = answer["schedules"]
        if operation in ("run_now", "stop", "retry"):
            answer["status"] = (
                answer["run"]["status"] if "run" in answer else "cancelled" if "runs" in answer else "pending"
            )
        notes = answer.get("note", "") if "reason" in answer else " ".join(answer.get("notes", []))
        return Said(self._facts(operation, answer), answer.get("warning_codes", []), notes)


class Dashboard(Interface):
    def do(self, operation: str, target: Target, expected: Said | None = None) -> Said | Refusal:
        id, run, others = target
        browser, proof = browser_of(self._there, self._owner)
        of_run = {"again": "again", "retry": "retry", "stop_run": "cancel", "resolve": "resolve", "reopen": "reopen"}
        named = {"run_now": "run", "restore_schedule": "restore"}
        path = f"/schedules/{id}/{named.get(operation, operation)}"
        path = f"/runs/{run}/{of_run[operation]}" if operation in of_run else path
        path = f"/attention/{id}/{operation.partition('_')[0]}" if operation.endswith("_incident") else path
        fields = [("until", UNTIL), ("note", NOTE)] if operation == "pause" else []
        if operation == "again":
            fields = [("field-task", "echo"), ("field-kwargs", "{}"), ("field-args", json.dumps(FIELDS["args"]))]
        if operation == "change_many":
            path, fields = "/schedules", [("action", "pause"), *(("id", each) for each in (id, *others))]
        reply = browser.send(path, [*fields, ("csrf", proof)])
        if reply.status != 303:
            return Refusal(words(reply), status=reply.status)
        page = browser.get(reply.headers["location"])
        assert page.status == 200 and expected is not None
        return self._shown(page, expected)

    def _shown(self, page: Reply, expected: Said) -> Said:
        """Return as much of what is expected as the page shows."""
        text, source = words(page), page.body.decode()
        facts = {name: value for name, value in expected.facts.items() if _is_shown(name, value, text, source)}
        warnings = self._there.room.services.worker_warnings("job")
        notes = expected.notes if expected.notes in text else text
        return Said(facts, [each.code for each in warnings if each.text in text], notes)


def _is_shown(name: str, value: Any, text: str, source: str) -> bool:
    match name:
        case "status":
            return str(value) in text or (value == "pending" and "scheduled" in text)
        case "matched":
            return True  # the selection itself
        case "changed":
            return f"{value} schedule" in text
        case "failed":
            return all(f"{id}: {reason}" in text for id, reason in value)
        case "falls_into_pause":  # a page shows its times as people read them
            return value.partition(", the first at ")[0] in text
        case "limits":
            return f"attempts {value['max_attempts']}" in text
        case _:
            return value is None or value in text or value in source


INTERFACES = {each.__name__: each for each in (Mcp, Http, Python, CommandLine, Dashboard)}
