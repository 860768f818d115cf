"""`duetime serve`: MCP over HTTP, and a worker in the same process."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duetime.cli import demo as demonstration
from duetime.cli import screen
from duetime.cli.clients import Reach, instructions, known_client
from duetime.cli.door import FAILED, OK
from duetime.cli.frame import Db, Json, Tasks, without_password
from duetime.cli.live import Stream
from duetime.cli.options import Tools
from duetime.cli.plain import PlainCommand
from duetime.cli.stopping import LOOK, StopButton, StoppedAtOnce, drain, leave_at_once, log_to
from duetime.cli.worker_words import farewell, greet
from duetime.compose import App, build, tokens_of, web
from duetime.core.errors import InvalidInput
from duetime.settings import Settings, load_settings

if TYPE_CHECKING:
    from duetime.faces.http.server import HttpServer

app = typer.Typer(add_completion=False)


@app.command(cls=PlainCommand)
def serve(
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 unless set.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8765 unless set; 0 takes a free one.")] = None,
    db: Db = None,
    tasks: Tasks = None,
    tools: Tools = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1000, help="Runs at a time.")] = None,
    lease: Annotated[float | None, typer.Option(min=1, help="Seconds of silence after which others take over.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no tokens; only on a loopback address.")] = False,
    print_config: Annotated[
        str | None, typer.Option("--print-config", metavar="CLIENT", help="Print one client's configuration, and end.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no configuration, and so no token.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Sample tasks on a SQLite file, shown live.")] = False,
    json_: Json = False,
) -> None:
    """Serve agents over MCP at /mcp, and run what is due. Ctrl-C stops; a second Ctrl-C stops at once."""
    flags = {
        "host": host,
        "port": port,
        "db": db,
        "tasks": tuple(tasks) if tasks else None,
        "tools": tools,
        "threads": threads,
        "lease": lease,
    }
    settings = load_settings(flags)
    if demo:
        settings = demonstration.demo_settings(settings, db)
    if print_config is not None:
        _print_one(settings, print_config, no_auth)
        return
    raise typer.Exit(_opened(settings, no_auth=no_auth, demo=demo, quiet=quiet, json_=json_))


def _opened(settings: Settings, *, no_auth: bool, demo: bool, quiet: bool, json_: bool) -> int:
    from duetime.faces.http.server import HttpServer, listen

    with listen(settings.host, settings.port, only_loopback=no_auth) as bound:
        tokens = None if no_auth else tokens_of(settings)
        token = None if tokens is None else tokens.local()
        room = build(settings)
        try:
            log_to(demonstration.LOG if demo else None)
            _log_the_server()
            http = HttpServer(web(room, tokens, _own_names(settings.host)), bound)
            return _serve(room, http, lambda: _introduce(settings, bound, token, quiet, json_), demo, json_)
        finally:
            room.close()


def _own_names(host: str) -> tuple[str, ...]:
    """An address that is listened on may be called by its name; one that means all of them is no name."""
    return () if host in ("0.0.0.0", "::", "") else (host,)  # noqa: S104 - compared, not bound


def _log_the_server() -> None:
    """What the web server and the SDK have to say goes where our own messages go."""
    ours = logging.getLogger("duetime")
    for name in ("uvicorn", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers[:] = ours.handlers
        logger.setLevel(logging.WARNING)
        logger.propagate = False


def _serve(room: App, http: HttpServer, introduce: Callable[[], None], demo: bool, json_: bool) -> int:
    button = StopButton()
    engine = room.engine()
    stream = None
    with button.installed():
        try:
            engine.start()
            http.start()
            introduce()
            samples = demonstration.plant(room) if demo else []
            greet(room, engine.worker.name, samples, json_)
            stream = Stream(room, json_=json_, bar=True) if demo else None
            while not button.asked.wait(LOOK if stream else 0.5) and engine.failure is None and http.serving:
                if stream is not None:
                    stream.refresh()
            http.ask_to_stop()
            left = drain(engine, room.settings, stream, json_)
            http.stop()
        except StoppedAtOnce:
            leave_at_once(engine, stream)
        except BaseException:
            engine.stop(0)
            raise
        finally:
            if stream is not None:
                stream.close()
    failure = engine.failure or http.failure
    if failure is not None:
        raise failure
    farewell(stream, left, demo_db=room.settings.db if demo else None, json_=json_)
    return FAILED if left else OK


# -- what to paste -------------------------------------------------------------------------------------------------


def _introduce(settings: Settings, bound: socket.socket, token: str | None, quiet: bool, json_: bool) -> None:
    from duetime.faces.http.server import url_of

    url = url_of(bound)
    if json_:
        facts = {"url": f"{url}/mcp", "health": f"{url}/healthz", "auth": token is not None}
        screen.print_json_line({"event": "serving", **facts})
        return
    asked = "with tokens" if token is not None else "WITHOUT tokens: whoever reaches this address is let in"
    print(f"Serving MCP at {url}/mcp, {asked}.", flush=True)
    if not ipaddress.ip_address(bound.getsockname()[0]).is_loopback:
        words = "others reach this over plain HTTP: put a proxy with TLS before it, and its name into `hosts`"
        screen.warn([words])
    if not quiet:
        reach = Reach(f"{url}/mcp", token, stdio_command(settings))
        print(f"\nTo connect a client, paste one of these.\n\n{instructions(reach)}")
    sys.stdout.flush()


def _print_one(settings: Settings, name: str, no_auth: bool) -> None:
    from duetime.faces.http.server import url_for

    client = known_client(name)
    if settings.port == 0:
        raise InvalidInput("--print-config: needs the port that is served; give --port")
    token = None if no_auth else tokens_of(settings).local()
    print(client.http(Reach(f"{url_for(settings.host, settings.port)}/mcp", token, stdio_command(settings))))


def stdio_command(settings: Settings) -> list[str]:
    """Works from any folder: what was said relative to this one is made absolute."""
    db = settings.path_of_db()
    db = without_password(db) if "://" in db else str(Path(db).expanduser().resolve())
    tasks = [str(Path(each).resolve()) if each.endswith(".py") else each for each in settings.tasks]
    named = [part for each in tasks for part in ("--tasks", each)]
    tools = ["--tools", ",".join(settings.tools)] if settings.tools else []
    return [sys.executable, "-m", "duetime", "mcp", "--db", db, *named, *tools]
