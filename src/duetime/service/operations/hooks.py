"""Hooks: addresses at which other services report events. Each has a secret, which proves who sends and does nothing
else. It is shown once, and no answer of an agent's tool contains it."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final

from duetime.engine.actor import RUN, TOKEN, Actor
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import Caller
from duetime.engine.scopes import DELETE, WRITE, check, group_of
from duetime.engine.store_interfaces import HookRow
from duetime.engine.value_class import dataclass
from duetime.security.webhook_signatures import SCHEMES, check_secret, new_secret
from duetime.service.errors import refuse
from duetime.service.operations.declaration import Answer, Field, OperationRequest, check_choice
from duetime.service.presenters import View, instant_view
from duetime.service.published import read_publication
from duetime.service.services import Call, Services

MOST_HOOKS: Final = 100
"""Maximum number of hooks of an owner."""
MOST_DELIVERIES: Final = 20
"""Number of deliveries that are kept of each hook."""
PREFIX: Final = "hook_"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,58}")
_LOCAL: Final = re.compile(r"//(localhost|127\.0\.0\.1|\[::1\])")
_NO_SERVER: Final = "No server receives deliveries: start `duetime serve`."
_LOCAL_ONLY: Final = "Only this machine reaches this address: senders elsewhere need a relay or a tunnel."
_SECRET = Field("The secret that the sender issued; without it, a new one is made.", max_length=200)
_SCHEME = (
    "How the sender proves itself: by GitHub's signature, by that of Standard Webhooks or of Stripe, by an HMAC with"
    " SHA-256 of the body in any header for signatures, or by a secret address."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateHook(OperationRequest):
    """A new hook."""

    name: Annotated[str, Field("First part of its events' names, such as github.", "Such as github.", max_length=40)]
    scheme: Annotated[str, Field(_SCHEME, brief="How it signs.", choices=SCHEMES)]
    secret: Annotated[str | None, _SECRET] = None
    has_secret: bool = True
    """Whether it gets a secret at once. Otherwise nothing is accepted until somebody asks for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHook(OperationRequest):
    """A hook, and a new secret for it. The old one is not accepted any more."""

    hook: Annotated[str, Field("Its id or name.", max_length=200)]
    secret: Annotated[str | None, _SECRET] = None


def create_hook(call: Call, request: CreateHook) -> Answer[View]:
    """Create a hook. Only the answers that create or rotate a secret show it."""
    _check(call, WRITE)
    check_choice("scheme", request.scheme, SCHEMES)
    if not _NAME.fullmatch(request.name):
        problem = "must have at most 40 lower-case letters, digits, _ and -, and begin with a letter, such as github"
        raise InvalidInput(field="name", problem=problem)
    id, secret = f"{PREFIX}{secrets.token_hex(16)}", _secret_of(request.scheme, request) if request.has_secret else ""
    hook = HookRow(id, call.caller.owner, request.name, request.scheme, secret, call.now, None, "[]")
    call.scheduler.store.insert_hook(hook, MOST_HOOKS)
    return Answer(hook_view(call, hook, with_secret=request.has_secret), notes=_notes(call))


def hooks(call: Call) -> Answer[list[View]]:
    """Return what is shown of the caller's hooks or, for an operator, of those of all owners."""
    check(call.caller.scopes)
    owner, limit = (None, 10 * MOST_HOOKS) if call.caller.operator else (call.caller.owner, MOST_HOOKS)
    rows, base = call.scheduler.store.hooks(owner, limit), address(call)
    return Answer([hook_view(call, each, base=base) for each in rows], notes=_notes(call))


def find_hook(call: Call, reference: str) -> HookRow:
    """Return a hook of the caller by its id or name."""
    check(call.caller.scopes)
    store, owner = call.scheduler.store, call.caller.owner
    hook = store.hook(reference) if reference.startswith(PREFIX) else None
    hook = hook or next((each for each in store.hooks(owner, MOST_HOOKS) if each.name == reference), None)
    if hook is None or (hook.owner != owner and not call.caller.operator):
        raise refuse("not_found", "There is no hook with this id or name; list them: `duetime hook list`.")
    return hook


def rotate_hook(call: Call, request: ChangeHook) -> Answer[View]:
    """Replace the secret of a hook, or make its first one."""
    _check(call, WRITE)
    hook = find_hook(call, request.hook)
    secret = _secret_of(hook.scheme, request)
    rotated = call.scheduler.store.change_hook(hook.id, lambda each: replace(each, secret=secret))
    return Answer(hook_view(call, rotated, with_secret=True))


def delete_hook(call: Call, request: ChangeHook) -> Answer[HookRow]:
    """Delete a hook. Events that it reported stay."""
    _check(call, DELETE)
    hook = find_hook(call, request.hook)
    call.scheduler.store.delete_hook(hook.id)
    return Answer(hook)


def _check(call: Call, action: str) -> None:
    """Refuse changes to agents' runs, and to tokens for some kinds or agents: events set off schedules of all kinds."""
    caller = call.caller
    if caller.depth > 0 or caller.actor.type == RUN:
        raise refuse("run_token", "an agent's run can neither create nor change hooks; ask a person to do it")
    check(caller.scopes, action)
    if any(group_of(scope) for scope in caller.scopes):
        raise refuse("scope", "hooks set off schedules of every kind; use a token without scopes for kinds or agents")


def _secret_of(scheme: str, request: CreateHook | ChangeHook) -> str:
    return new_secret(scheme) if request.secret is None else check_secret(scheme, request.secret.strip())


def address(call: Call) -> str:
    """Return the address of the server as it published it; empty if none is running."""
    publication = read_publication(call.scheduler.store.published())
    return "" if publication is None else publication.url


def _notes(call: Call) -> list[str]:
    base = address(call)
    return [_LOCAL_ONLY] if _LOCAL.search(base) else [] if base else [_NO_SERVER]


def hook_view(call: Call, hook: HookRow, *, with_secret: bool = False, base: str | None = None) -> View:
    """Return what is shown of a hook. `base` is the address of the server."""
    path = f"/hooks/{hook.id}" + (f"/{hook.secret if with_secret else '***'}" if hook.scheme == "url" else "")
    view = {name: getattr(hook, name) for name in ("id", "name", "scheme", "owner")}
    return view | {
        "url": f"{address(call) if base is None else base}{path}",
        "created": instant_view(hook.created, call.zone),
        "last_used": instant_view(hook.used, call.zone),
        "has_secret": bool(hook.secret),
        "deliveries": [row | {"at": instant_view(row["at"], call.zone)} for row in json.loads(hook.deliveries)],
        **({"secret": hook.secret} if with_secret else {}),
    }


# -- deliveries ----------------------------------------------------------------------------------------------------


def accept(services: Services, hook: HookRow, key: str | None, event: str, data: View) -> View:
    """Store the event that a verified delivery reports, and return what is noted of it. A delivery with a key that came
    before is stored once. The key is one of this hook, so no sender can use up the keys of another."""
    key = data.get("id") if hook.scheme == "stripe" else key
    key = f"{hook.id}:{hashlib.sha256(key.encode()).hexdigest()}" if isinstance(key, str) else None
    caller = Caller(hook.owner, actor=Actor(TOKEN, hook.name, "hook"))
    return {"event": event, **services.scheduler.emit(caller, event, data, key)._asdict()}


def event_name(hook: HookRow, headers: Mapping[str, str], data: View) -> str:
    """Return the name of the event that a delivery reports: that of the hook, with the sender's type if it has one."""
    type_ = headers.get("x-github-event") if hook.scheme == "github" else None
    type_ = data.get("type") if hook.scheme in ("standard", "stripe") else type_
    return f"{hook.name}.{type_}" if isinstance(type_, str) and _TYPE.fullmatch(type_) else hook.name


def add_delivery(rows: list[View], note: View) -> None:
    """Add a delivery to the latest ones of a hook, newest first. Refusals for the same reason are one with a count, so
    that they do not displace what was accepted."""
    place = next((at for at, row in enumerate(rows) if "error" in row and row["error"] == note.get("error")), None)
    count = {} if place is None else {"count": rows.pop(place).get("count", 1) + note.get("count", 1)}
    rows[:] = [note | count, *rows][:MOST_DELIVERIES]


def note_deliveries(services: Services, hook: str, notes: Sequence[View]) -> HookRow:
    """Add deliveries, the oldest first, to the latest ones of a hook."""

    def add(each: HookRow) -> HookRow:
        rows = json.loads(each.deliveries)
        for note in notes:
            add_delivery(rows, note)
        rows.sort(key=lambda row: -row["at"])
        used = max((note["at"] for note in notes if "event" in note), default=each.used)
        return replace(each, used=used, deliveries=json.dumps(rows))

    return services.scheduler.store.change_hook(hook, add)


def send_test(call: Call, request: ChangeHook) -> Answer[View]:
    """Report the event NAME.test. Schedules that listen to it run."""
    _check(call, WRITE)
    hook = find_hook(call, request.hook)
    note = {"at": call.now, **accept(call.services, hook, None, f"{hook.name}.test", {"test": True})}
    return Answer(hook_view(call, note_deliveries(call.services, hook.id, [note])))
