"""`duetime token`: manage the tokens for HTTP. An issued token is printed once and not stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from duetime.app import server_url, sign_in_link, tokens_for_command
from duetime.engine.clock import SECOND, Instant, SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL
from duetime.security.claims import InvalidToken
from duetime.security.private_files import read_private
from duetime.security.tokens import CALENDAR, Tokens, decode_unverified
from duetime.service.errors import REFUSED, refuse
from duetime.service.tokens import grant_view
from duetime.service.vocabulary import clock_local
from duetime.service.when import duration
from duetime.settings import load_settings, local_zone
from duetime.terminal import output
from duetime.terminal.context import Db, Json, given_text, settings_for
from duetime.terminal.declarations import Exit, argument, group, option
from duetime.terminal.output import READABLE, clean

Host = Annotated[str | None, option("--host ADDRESS", "Address of the server.")]
Port = Annotated[int | None, option("--port", "Port of the server.", min=1, max=65535)]

commands = group("Issue, show, list and revoke access tokens for the HTTP server.")


@contextmanager
def _tokens() -> Iterator[tuple[Tokens, str]]:
    settings = settings_for()
    with tokens_for_command(settings) as tokens:
        yield tokens, local_zone(settings)


def _topics_of(owner: str) -> str:
    """Return the address to which an owner other than `local` subscribes on the ntfy server."""
    from duetime.kinds.notifications.channels.ntfy import NtfyServer, address_of

    notifications = load_settings().notifications
    if owner == LOCAL or not notifications.server:
        return ""
    return address_of(NtfyServer(notifications.server, notifications.prefix), "TOPIC", owner)


def _clock_text(seconds: int, zone: str) -> str:
    return clock_local(Instant(seconds * SECOND), zone)


_ISSUE_EXAMPLES = """\
duetime token issue --email ada@example.org --expires-in 90d
duetime token issue --email ada@example.org --scope write --scope kind:prompt --scope agent:claude
"""


@commands.command(epilog=_ISSUE_EXAMPLES)
def issue(
    email: Annotated[str, option("--email ADDRESS", "Address of the person that it is for.")],
    expires_in: Annotated[str, option("--expires-in TIME", "How long it is valid, such as 12h or 30d.")] = "30d",
    owner: Annotated[
        str | None,
        option("--owner NAME", "Owner whose schedules it gives access to, such as a team; by default the address."),
    ] = None,
    timezone: Annotated[str | None, option("--timezone --tz ZONE", "Their time zone, such as Europe/Berlin.")] = None,
    scope: Annotated[
        list[str] | None,
        option(
            "--scope SCOPE",
            "Limit: `read`, `write` or `delete`, `kind:NAME`, `agent:NAME`; without any, it may do everything for its"
            " owner. `operator` gives access to the schedules of all owners. Repeatable.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Issue an access token. It is shown only once; `token list` shows its id, by which it can be revoked."""
    life = duration(expires_in, "--expires-in")
    with _tokens() as (tokens, zone):
        token = tokens.issue(email, life, email=email, owner=owner, timezone=timezone, scopes=scope or ())
        grant = tokens.read(token)
    topics = _topics_of(grant.owner)
    if json_:
        output.print_json({"token": token, **grant_view(grant, zone), **({"topics": topics} if topics else {})})
        return
    print(token)
    if topics:
        output.note(f"their phone subscribes to {topics}, with a topic in place of TOPIC")
    limits = f"scope {' '.join(grant.scopes)}, " if grant.scopes else ""
    until = f"{limits}until {_clock_text(grant.expires, zone)}"
    output.note(f"for {grant.subject}, owner {grant.owner}, {until}; id {grant.id}")


@commands.command(reads=True)
def header(
    file: Annotated[str | None, option("--file FILE", "File that contains the token.")] = None, _json: Json = False
) -> None:
    """Print the Authorization header with the token of this machine, or of a file, as JSON, for a client that asks a
    program for it."""
    if file is None:
        with _tokens() as (tokens, _):
            token: str | None = tokens.local()
    else:
        token = read_private(Path(file).expanduser())
    if not token or not token.strip():
        raise InvalidInput(f"--file: there is no token in {file}; start `duetime serve`, which makes one")
    output.print_json_line({"Authorization": f"Bearer {token.strip()}"})


@commands.command()
def link(host: Host = None, port: Port = None, db: Db = None, json_: Json = False) -> None:
    """Make a link that signs in to the dashboard of the running server as an operator. It works once, within 10
    minutes."""
    settings = settings_for({"host": host, "port": port, "db": db})
    url, is_running = server_url(settings, is_named=host is not None or port is not None)
    with tokens_for_command(settings) as tokens:
        address = sign_in_link(url, tokens)
    output.print_result(json_, {"link": address}, address)
    if not json_ and not is_running:
        output.warn([f"no Duetime server answers at {url}; start one with `duetime serve`, or name it with --port"])


@commands.command()
def calendar(
    owner: Annotated[str, option("--owner NAME", "Owner whose schedules the feed shows.")] = LOCAL,
    expires_in: Annotated[str, option("--expires-in TIME", "How long it is valid, such as 365d.")] = "365d",
    host: Host = None,
    port: Port = None,
    json_: Json = False,
) -> None:
    """Make the address of a calendar feed. Anyone who has the address can read it until its token is revoked."""
    settings = settings_for({"host": host, "port": port})
    url, _ = server_url(settings, is_named=host is not None or port is not None)
    with tokens_for_command(settings) as all_tokens:
        tokens = all_tokens.for_purpose(CALENDAR)
        token = tokens.issue(f"calendar of {owner}", duration(expires_in, "--expires-in"), owner=owner)
    address = f"{url}/calendar/{token}.ics"
    grant = tokens.read(token)
    if json_:
        output.print_json({"address": address, **grant_view(grant, local_zone(settings))})
        return
    print(address)
    output.note(f"read-only; `duetime token revoke {grant.id}` ends it")


@commands.command(reads=True)
def show(
    token: Annotated[str, argument("TOKEN", "Token; - reads it from standard input.")], json_: Json = False
) -> None:
    """Decode a token, and say whether it is valid here. The exit code is 4 if it is not."""
    text = given_text(token).strip()
    try:
        header, claims = decode_unverified(text)
    except InvalidToken as error:
        raise refuse("not_possible", error.message) from None
    with _tokens() as (tokens, zone):
        try:
            grant, problem = tokens.verify(text), None
        except InvalidToken as error:
            grant, problem = None, error.message
    if json_:
        facts: dict[str, Any] = {"valid": problem is None, "problem": problem, "header": header, "claims": claims}
        output.print_json(facts if grant is None else facts | grant_view(grant, zone))
    else:
        output.facts([
            ("valid", "yes" if problem is None else f"no: {problem}"),
            *((name, _readable(name, value, zone)) for name, value in claims.items()),
            ("alg", header.get("alg")),
        ])  # fmt: skip
    if problem is not None:
        raise Exit(REFUSED)


def _readable(name: str, value: object, zone: str) -> object:
    if name in ("iat", "exp", "nbf") and type(value) is int and 0 <= value < 2**36:
        return _clock_text(value, zone)
    return value


@commands.command("list", reads=True)
def list_(json_: Json = False) -> None:
    """List the tokens that were issued here, oldest first, including those of browsers and calendar feeds."""
    now = SystemClock().now() // SECOND
    with _tokens() as (tokens, zone):
        views = []
        for record in tokens.issued():
            status = "revoked" if record.revoked else "expired" if record.expires <= now else "valid"
            about = {"id": record.id, "for": record.purpose or "program", "status": status}
            views.append(about | grant_view(record, zone))
    if json_:
        output.print_json({"tokens": views, "count": len(views)})
    elif not views:
        print("No token was issued yet.")
    else:
        headings = ["ID", "FOR", "STATUS", "EXPIRES", "SUBJECT", "OWNER", "SCOPE"]
        output.table(headings, [_row(view) for view in views], whole=4, spare={"SCOPE": READABLE, "OWNER": READABLE})


def _row(view: dict[str, Any]) -> list[object]:
    owner = "-" if view["owner"] == view["subject"] else view["owner"]
    day = view["expires"].partition("T")[0]
    return [view["id"], view["for"], view["status"], day, view["subject"], owner, view["scope"] or "-"]


@commands.command()
def revoke(
    id: Annotated[str, argument("ID", "Id, as `token list` shows it.")],
    anywhere: Annotated[bool, option("--anywhere", "Also if another machine issued it.")] = False,
    json_: Json = False,
) -> None:
    """Revoke a token on every machine that shares the store."""
    with _tokens() as (tokens, _):
        known = anywhere or any(record.id == id for record in tokens.records())
        if not known and not tokens.is_revoked(id):
            message = f"no token with the id {id!r} was issued here; `token list` shows them, --anywhere takes any"
            raise refuse("not_found", message)
        fresh = tokens.revoke(id)
    text = f"Token {clean(id)} is revoked." if fresh else f"Token {clean(id)} was revoked before."
    output.print_result(json_, {"id": id, "revoked": True, "before": not fresh}, text)
