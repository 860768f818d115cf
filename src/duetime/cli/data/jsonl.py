"""Schedules as lines of JSON: written with all that another store needs to create them, and validated when read."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from duetime.cli.data.crontab import Remark
from duetime.cli.data.import_plan import Candidate
from duetime.engine.clock import Instant, instant_of
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.model import Schedule, ScheduleState
from duetime.engine.policy.rows import Draft
from duetime.engine.times import iso_local
from duetime.engine.validation import NewSchedule
from duetime.service.presenters import trigger_shape
from duetime.terminal.application import Application

FORMAT = 1
_MADE_BY_US = "~"
"""Prefix of keys that no caller chose."""


def line_of(schedule: Schedule) -> str:
    definition, progress = schedule
    key = None if definition.key.startswith(_MADE_BY_US) else definition.key
    document = {
        "duetime": FORMAT,
        "id": definition.public_id,
        "kind": definition.kind,
        "owner": definition.owner,
        "name": definition.name,
        "trigger": trigger_shape(definition.trigger),
        "payload": json.loads(definition.payload),
        "policy": json.loads(definition.policy),
        "paused": progress.state == ScheduleState.PAUSED,
        "next": _utc(progress.next),
        "runs": progress.run_count,
        "depth": definition.depth,
        "key": key,
        "created": _utc(definition.created),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _utc(instant: Instant | None) -> str | None:
    return None if instant is None else iso_local(instant, "UTC")


# -- reading ----------------------------------------------------------------------------------------------------------


def read(app: Application, text: str) -> tuple[list[Candidate], list[Remark]]:
    candidates, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            candidates.append(_candidate(app, number, json.loads(line)))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError, DuetimeError) as error:
            reason = str(error) if isinstance(error, DuetimeError) else "it is no line that `duetime export` wrote"
            problems.append(Remark(number, line[:60], reason))
    return candidates, problems


def _candidate(app: Application, number: int, document: dict[str, Any]) -> Candidate:
    if document["duetime"] != FORMAT:
        raise ValueError("another format")
    trigger = dict(document["trigger"])
    zone, type_ = trigger.pop("timezone"), trigger.pop("type")
    caller = Caller(document["owner"], operator=True, depth=int(document["depth"]))
    new = NewSchedule(
        kind=document["kind"],
        name=document["name"],
        trigger_type=type_,
        trigger_config=trigger,
        payload=document["payload"],
        policy=_policy_left(document),
        timezone=zone,
        idempotency_key=_key(document),
    )
    return Candidate(
        line=number,
        text=f"{document['kind']} {document['name']}",
        new=new,
        caller=caller,
        paused=bool(document["paused"]),
        next=_still_to_come(document, app.clock.now()),
        present=_origin(app, caller, document),
        fits=lambda draft: _difference(draft, document["trigger"]),
    )


def _difference(draft: Draft, trigger: dict[str, Any]) -> str | None:
    same = trigger_shape(draft.definition.trigger) == trigger
    return None if same else "it would not fire at the same times; make it anew"


def _policy_left(document: dict[str, Any]) -> dict[str, Any]:
    """Return the policy with `max_runs` reduced to the runs that are left."""
    policy = dict(document["policy"])
    if policy.get("max_runs") is not None:
        policy["max_runs"] = max(1, policy["max_runs"] - int(document["runs"]))
    return policy


def _key(document: dict[str, Any]) -> str:
    """Return the schedule's own key, or else one that identifies the line when it is imported again."""
    own = document["key"]
    return str(own) if own is not None else f"export:{document['id']}:{document['created']}"[:200]


def _origin(app: Application, caller: Caller, document: dict[str, Any]) -> Schedule | None:
    """Return the schedule itself, if this is the store that it was exported from."""
    found = app.scheduler.find(caller, str(document["id"]), document["kind"])
    return found if found is not None and _utc(found.definition.created) == document["created"] else None


def _still_to_come(document: dict[str, Any], now: Instant) -> Instant | None:
    """Return the next instant, which somebody may have moved off its rule, if it is in the future."""
    if document["next"] is None or document["paused"] or document["trigger"]["type"] == "once":
        return None
    following = instant_of(datetime.fromisoformat(document["next"]))
    return following if following > now else None
