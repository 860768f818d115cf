"""`duetime serve`: the dashboard, the API and MCP over HTTP, and a worker in the same process. `duetime open` opens the
dashboard."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

from duetime.app import server_url, sign_in_link, tokens_for_command, tokens_of, web
from duetime.cli.serve.demo import DB
from duetime.cli.serve.worker import WorkerCommandOptions, build_when_reachable, work_until_stopped
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.http import url_for
from duetime.kinds.prompts.kind import PromptKind
from duetime.service.client_configs import ALL, CLIENTS, Reach, instructions, known_client
from duetime.service.errors import refuse
from duetime.service.masking import without_password
from duetime.settings import Settings
from duetime.settings.own_commands import header_command, stdio_command
from duetime.terminal import output
from duetime.terminal.context import Db, Json, Tools, program, settings_for
from duetime.terminal.declarations import option, single

if TYPE_CHECKING:
    from duetime.security.tokens import Tokens


commands = single()


_SERVE_EXAMPLES = """\
duetime serve
duetime serve --demo
duetime serve --port 0 --live --tasks my_tasks
"""


@commands.command(epilog=_SERVE_EXAMPLES)
def serve(
    host: Annotated[str | None, option("--host ADDRESS", "Address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[
        int | None, option("--port", "Port to listen on; by default 8765. 0 picks a free port.", min=0, max=65535)
    ] = None,
    tools: Tools = None,
    no_auth: Annotated[bool, option("--no-auth", "Require no access tokens; only on a loopback address.")] = False,
    print_config: Annotated[
        str | None, option("--print-config CLIENT", "Print the configuration for an agent client, or for all of them.")
    ] = None,
    no_link: Annotated[bool, option("--no-link", "Don't print the sign-in link.")] = False,
    *,
    options: WorkerCommandOptions,
) -> int | None:
    """Run what is due, and serve the dashboard, the API and MCP. Ctrl-C waits for running work and stops; a second
    Ctrl-C stops at once."""
    settings = options.settings(host=host, port=port, tools=tools)
    if print_config is not None:
        _print_client_config(settings, print_config, no_auth)
        return None
    return _listen_and_serve(options.leave_folder(settings), options, no_auth=no_auth, link=not no_link)


def _listen_and_serve(settings: Settings, options: WorkerCommandOptions, *, no_auth: bool, link: bool) -> int:
    from duetime.http.connection_limits import connection_limits
    from duetime.http.server import HttpServer, listen, url_of

    with (
        listen(settings.host, settings.port, only_loopback=no_auth) as bound,
        closing(build_when_reachable(settings, wait=not options.no_wait)) as app,
    ):
        published = app.publish(url_of(bound))
        tokens = None if no_auth else tokens_of(settings, app.clock, app.store)
        if tokens is not None:
            tokens.local()  # create it before anybody is told to use it
        options.start_logging()
        # The address is an accepted host name, unless it is a wildcard address.
        names = () if settings.host in ("0.0.0.0", "::", "") else (settings.host,)  # noqa: S104 - compared, not bound
        http = HttpServer(web(app, tokens, names), bound, connection_limits(settings))
        if tokens is not None:  # without tokens, an agent's run could not be distinguished from a person
            access = app.services.kind(PromptKind).access
            assert access is not None
            access.url = settings.url or f"{url_of(bound)}/mcp"  # clients may reach it by another name
        introduce = partial(_introduce, bound, tokens, options, link)
        try:
            return work_until_stopped(app, options, http, introduce)
        finally:
            with suppress(DuetimeError):  # the store may be the reason why it stops
                app.withdraw_address(published)


def _introduce(bound: socket.socket, tokens: Tokens | None, options: WorkerCommandOptions, link: bool) -> None:
    from duetime.http.server import url_of

    url = url_of(bound)
    if options.json_:
        facts = {"url": f"{url}/mcp", "dashboard": f"{url}/", "health": f"{url}/healthz", "auth": tokens is not None}
        output.print_json_line({"event": "serving", **facts})
        return
    loopback = ipaddress.ip_address(bound.getsockname()[0]).is_loopback
    if not loopback:
        output.warn(["others reach this over plain HTTP: put a proxy with TLS before it, and its name into `hosts`"])
    if options.quiet:
        return
    if tokens is None or not link:
        print(f"Dashboard: {url}/" + ("" if tokens is None else f"\n           ({program('open')} signs in)"))
    else:
        print(f"Dashboard: {sign_in_link(url, tokens)}\n           (this link signs in once, within 10 minutes)")
    access = "with tokens" if tokens is not None else "WITHOUT tokens: anyone who can reach this address has access"
    print(f"Serving MCP at {url}/mcp, {access}.", flush=True)
    (first, *others), db = CLIENTS, options.db or (DB if options.demo else None)
    store = [] if db is None else ["--db", without_password(db)]
    tasks = [part for module in options.tasks or () for part in ("--tasks", module)]
    output.say(f"To connect an agent: {program('connect', first, *store, *tasks)} (or {', '.join(others)})")
    by_hand = program("serve", "--print-config", ALL, "--port", str(bound.getsockname()[1]))
    output.say(f"Over HTTP instead, as from another machine: {by_hand}\n")
    sys.stdout.flush()


def _print_client_config(settings: Settings, name: str, no_auth: bool) -> None:
    render = instructions if name == ALL else known_client(name, every=True).http
    if settings.port == 0:
        raise InvalidInput("--print-config: needs the port that is served; give --port")
    token = None
    if not no_auth:
        with tokens_for_command(settings) as tokens:
            token = tokens.local()
    url = f"{url_for(settings.host, settings.port)}/mcp"
    print(render(Reach(url, token, stdio_command(settings), header_command(settings))))


open_commands = single()


@open_commands.command(reads=True, name="open", epilog="duetime open\nduetime open --link")
def open_dashboard(
    link: Annotated[bool, option("--link", "Only print the link.")] = False,
    host: Annotated[str | None, option("--host ADDRESS", "Address of the server.")] = None,
    port: Annotated[int | None, option("--port", "Port of the server.", min=1, max=65535)] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Open the dashboard in the browser, signed in. Without a browser, the link is printed: it works once, within 10
    minutes."""
    settings = settings_for({"host": host, "port": port, "db": db})
    url, is_running = server_url(settings, is_named=host is not None or port is not None)
    if not is_running:
        raise refuse("not_possible", f"no Duetime server answers at {url}; start one: {program('serve')}")
    with tokens_for_command(settings) as tokens:
        address = sign_in_link(url, tokens)
    opened = not link and not json_ and output.is_terminal() and _show(address)
    text = f"Opened {url}/ in your browser." if opened else address
    output.print_result(json_, {"link": address}, text)


def _show(link: str) -> bool:
    """Open a graphical browser. A browser in this terminal, or on a machine that is only reached by SSH, would not
    help."""
    graphical = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (graphical or os.environ.get("BROWSER")) or os.environ.get("SSH_CONNECTION"):
        return False
    import webbrowser

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
