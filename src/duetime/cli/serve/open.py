"""`duetime open`: open the dashboard of the running server in the browser."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from duetime.app import server_url, sign_in_link, tokens_at_hand
from duetime.service.errors import refuse
from duetime.terminal import output
from duetime.terminal.context import Db, Json, program, settings_for
from duetime.terminal.typer_ext import PlainCommand, option, single

commands = single()


@commands.command(cls=PlainCommand, name="open", epilog="duetime open\nduetime open --link")
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
    url, is_running = server_url(settings, given=host is not None or port is not None)
    if not is_running:
        raise refuse("not_possible", f"no Duetime server answers at {url}; start one: {program('serve')}")
    with tokens_at_hand(settings) as tokens:
        made = sign_in_link(url, tokens)
    opened = not link and not json_ and output.is_terminal() and _show(made)
    text = f"Opened {url}/ in your browser." if opened else made
    output.print_result(json_, {"link": made}, text)


def _show(link: str) -> bool:
    """Open a graphical browser. A browser in this terminal, or on a machine that is only reached by SSH, is no use."""
    graphical = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (graphical or os.environ.get("BROWSER")) or os.environ.get("SSH_CONNECTION"):
        return False
    import webbrowser

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
