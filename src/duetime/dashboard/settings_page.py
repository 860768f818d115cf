"""Settings and health: what is set up, whether it works, the tokens, and how to connect an agent."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest, at
from duetime.dashboard.templates import is_https
from duetime.engine.clock import SECOND
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.security.claims import OPERATOR
from duetime.security.tokens import Tokens
from duetime.service.client_configs import CLIENTS, Reach
from duetime.service.errors import refuse
from duetime.service.operations.create import CreateSchedule, create
from duetime.service.operations.status import limit_text, status, workers
from duetime.service.presenters import View
from duetime.service.tokens import grant_view
from duetime.service.when import duration

NEVER_SHOWN: Final = "YOUR_TOKEN"
"""Placeholder for a token, because each is shown only once, when it is issued."""
MOST_TOKENS: Final = 100
WORKERS: Final = 50
LIVES: Final = {"1d": "1 day", "30d": "30 days", "90d": "90 days", "365d": "1 year"}


def settings_page(
    request: PageRequest,
    *,
    issued: str | None = None,
    problem: str | None = None,
    typed: Form | None = None,
    revoking: str = "",
) -> Response:
    """Render the page; with the id of a token, it asks whether to revoke that."""
    health = status(request.reader).value
    page = request.render(
        "settings.html",
        200 if problem is None else 422,
        health=health,
        limits=[limit_text(name, value) for name, value in health["limits"].items()],
        targets=_targets(request),
        worker_rows=workers(request.reader, WORKERS).value if request.sees_workers else [],
        tokens=_token_rows(request),
        revoking=revoking,
        may_issue=_may_issue(request),
        lives=LIVES,
        issued=issued,
        problem=problem,
        typed={name: "" if typed is None else typed.get(name) for name in ("email", "owner", "life", "scope")},
        spent=health.get("spent"),
    )
    page.headers["Cache-Control"] = "no-store"  # a token that was just issued is on it
    return page


def _targets(request: PageRequest) -> list[tuple[str, str, list[View]]]:
    """Return what each kind can deliver to or wake, such as channels and agents, each with whether it can be tested."""
    services, targets = request.call.services, []
    for kind in services.kinds:
        hooks = services.hooks(kind)
        for heading, value in hooks.status(request.caller.owner).facts.items():
            if isinstance(value, list):
                rows = [each | {"test": hooks.trial(each["name"], request.caller.owner) is not None} for each in value]
                targets.append((heading, kind, rows))
    return targets


def _tokens(request: PageRequest) -> Tokens | None:
    sessions = request.browsers.sessions
    return None if sessions is None else sessions.tokens


def _may_issue(request: PageRequest) -> bool:
    return request.caller.operator and not request.caller.scopes and _tokens(request) is not None


def _token_rows(request: PageRequest) -> list[dict[str, Any]]:
    """Return the tokens that are or were valid, newest first: an operator sees all, others their own."""
    tokens, now = _tokens(request), request.now // SECOND
    if tokens is None:
        return []
    caller = request.caller
    mine = [each for each in tokens.records() if (caller.operator or each.owner == caller.owner) and each.expires > now]
    mine.sort(key=lambda each: each.issued, reverse=True)
    valid = (each for each in mine if not tokens.is_revoked(each.id))  # checked only for those that are shown
    return [
        grant_view(each, request.zone) | {"purpose": each.purpose or "program", "this": each.id == request.session}
        for each in islice(valid, MOST_TOKENS)
    ]


def change_settings(request: PageRequest, form: Form) -> Response:
    """Start a test, or issue or revoke a token."""
    if form.get("test"):
        return _test(request, form.get("test"))
    tokens = _tokens(request)
    if tokens is None or not request.caller.operator:
        raise refuse("operators_only", "only an operator issues and revokes tokens")
    if request.caller.scopes:
        raise refuse("scope", "a token with scopes other than operator issues and revokes no tokens")
    if form.get("revoke"):
        return _revoke(request, tokens, form)
    try:
        issued = _issue(request, tokens, form)
    except DuetimeError as error:
        return settings_page(request, problem=error.message, typed=form)
    return settings_page(request, issued=issued)


def _revoke(request: PageRequest, tokens: Tokens, form: Form) -> Response:
    """Revoke a token after asking, because that cannot be undone."""
    id = form.get("revoke")
    if all(each.id != id for each in tokens.records()):
        raise refuse("not_found", "There is no token with this id; the list on this page shows those that are valid.")
    if not form.get("sure"):
        return settings_page(request, revoking=id)
    tokens.revoke(id)
    return request.redirect("/settings", did="revoked")


def _issue(request: PageRequest, tokens: Tokens, form: Form) -> str:
    """Issue a token. A token that is issued in a session which a token opened expires with that token, at the
    latest."""
    email, owner = form.get("email").strip(), form.get("owner").strip()
    life_name, scopes = form.get("life").strip() or "30d", [OPERATOR] if form.get("scope") else []
    if life_name not in LIVES:
        raise InvalidInput(field="life", problem=f"must be one of {', '.join(LIVES)}")
    life, visitor = duration(life_name, "life"), request.browsers.visitor(request.http.scope)
    parent = "" if visitor is None else visitor.grant.parent
    if visitor is not None and parent:
        opened_by = next((each for each in tokens.records() if each.id == parent), visitor.grant._replace(parent=""))
        if opened_by.parent or visitor.grant.root:  # a third one would not expire with the first
            text = "a token that was issued here issues no others; sign in with `duetime open` or the first token"
            raise refuse("not_possible", text)
        life = min(life, max(opened_by.expires * SECOND - request.now, SECOND))
    return tokens.issue(email, life, email=email, owner=owner or None, scopes=scopes, parent=parent or None)


def _test(request: PageRequest, target: str) -> Response:
    """Create a schedule that tests a channel or an agent at once; its page shows the outcome."""
    kind, _, name = target.partition(":")
    known = {each["name"] for _, of, rows in _targets(request) if of == kind for each in rows if each["test"]}
    payload = request.call.services.hooks(kind).trial(name, request.caller.owner) if name in known else None
    if payload is None:
        raise refuse("not_found", "There is nothing of this name to test.")
    trial = CreateSchedule(kind, payload, {"at": "now"}, policy={"max_attempts": 1}, name=f"Test of {name}")
    created = create(request.call, trial).value
    return request.redirect(at(created.schedule.definition.public_id), did="testing")


def base_address(request: PageRequest) -> str:
    """Return the address at which the viewer reaches the server."""
    base = request.http.base_url
    return str(base.replace(scheme="https") if is_https(request.http.scope) else base).rstrip("/")


def connect_page(request: PageRequest) -> Response:
    """Render the configuration of every client, over HTTP and over stdio."""
    url = f"{base_address(request)}/mcp"
    commands = request.context.commands
    token = None if request.context.trusting else NEVER_SHOWN
    local = request.sees_workers
    reach = Reach(url, token, commands.stdio if local else ("duetime", "mcp"), commands.header if local else ())
    clients = [
        {"name": name, "title": each.title, "where": each.where, "http": each.http(reach), "stdio": each.stdio(reach)}
        for name, each in CLIENTS.items()
    ]
    command = request.command("connect", "claude-code")
    return request.render("connect.html", clients=clients, url=url, local=local, token=token, command=command)
