"""`duetime init`: ask a few questions, and write the answers to the user's own settings file."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from duetime.cli.setup import init_choices
from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.kinds.notifications.build import alerts_warning, delivery_of, place_of_alerts
from duetime.kinds.notifications.delivery import topic_of_alerts
from duetime.kinds.prompts.kind import REMINDERS
from duetime.service.client_configs import CLIENTS
from duetime.service.errors import refuse
from duetime.settings import CONFIG, Settings, find_file, user_file
from duetime.settings.sections import INBOX
from duetime.settings.settings_file import Key, change_file, load_only, text_of, value_at
from duetime.terminal import output
from duetime.terminal.context import Json, program
from duetime.terminal.declarations import option, single
from duetime.terminal.input import agreed, is_interactive
from duetime.terminal.output import clean

commands = single()
_GUESSABLE = 10
"""Length below which a prefix of topics on a public server can be guessed."""


@commands.command()
def init(
    flags: init_choices.Choices,
    yes: Annotated[bool, option("--yes", "Don't ask; use the options, and keep all other settings.")] = False,
    json_: Json = False,
) -> None:
    """Set up notifications, the time zone and the agent. The answers are written to your own settings file, which
    applies in every folder, or to the file that --config names. Settings that are already there are kept."""
    path = Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else user_file()
    before = text_of(path)
    settings = load_only(path) if before else Settings()
    if yes or json_ or flags != init_choices.Choices():
        if flags.token == "-":  # noqa: S105 - a dash, not a password
            flags = replace(flags, token=sys.stdin.read().strip())
        choices = flags.check(settings)
    else:
        if not is_interactive():
            raise InvalidInput("not a terminal; pass --yes, with the options that duetime init --help shows")
        output.say(f"Settings for Duetime, kept in {clean(path)}. Press Enter to accept the default in brackets.")
        choices = init_choices.from_questions(settings)
    changes = choices.changes(settings)
    if changes and (yes or _may_replace(path, before, changes, json_)):
        change_file(path, before, changes)
    elif changes:
        return
    _print_summary(path, changes, load_only(path) if path.exists() else settings, json_)


def _may_replace(path: Path, before: str, changes: dict[Key, Any], json_: bool) -> bool:
    """Ask before replacing values in the file; additions need no confirmation."""
    replaced = [".".join(name) for name in changes if value_at(tomllib.loads(before), name) is not None]
    if not replaced:
        return True
    if json_:
        raise refuse("not_possible", f"{path} has other values for {', '.join(replaced)}; --yes replaces them")
    return agreed(f"\n{clean(path)} has other values for {clean(', '.join(replaced))}. Replace them?")


def _print_summary(path: Path, changes: dict[Key, Any], settings: Settings, json_: bool) -> None:
    alerts = topic_of_alerts(settings.notifications.alerts, settings.notifications.topic)
    topics = [topic for topic in dict.fromkeys((REMINDERS, alerts)) if topic not in (INBOX, *settings.channels)]
    subscribe = {topic: _address(settings, topic) for topic in topics} if settings.notifications.server else {}
    following = _next_steps(settings, changes)
    warnings = [*_warnings(settings, changes), *_not_used_here(path)]
    if json_:
        facts = {"file": str(path), "written": [".".join(name) for name in changes], "subscribe": subscribe}
        output.print_json(facts | {"next": list(following), "warnings": warnings})
        return
    verb = f"Wrote {clean(path)}; only you can read it." if changes else f"{clean(path)} needs no change."
    output.say(f"\n{verb}\n")
    no_agent = "none; prompts wait until a connected agent takes them"
    output.facts([
        ("notifications", _where(settings)),
        ("default topic", settings.notifications.topic or "none: each notification names one"),
        *([("alerts", place_of_alerts(settings))] if settings.channels else []),
        ("time zone", settings.timezone or "the machine's"),
        ("agent", no_agent if settings.agent == INBOX else settings.agent),
    ])  # fmt: skip
    if subscribe:
        width = max(map(len, subscribe.values()))
        output.say("\nOn your phone, install the app ntfy and subscribe to")
        for topic, address in subscribe.items():
            purposes = ["reminders"] * (topic == REMINDERS) + ["what needs you"] * (topic == alerts)
            output.say(f"  {clean(address):<{width}}   {', '.join(purposes)}")
        output.say(f"and to {clean(_address(settings, 'TOPIC'))} for any other topic that you use.")
    width = max(map(len, following))
    print("\nNext:")
    for command, purpose in following.items():
        fits = not output.is_terminal() or width + len(purpose) + 5 < output.width()
        output.say(f"  {command:<{width}}   {purpose}" if fits else f"  {command}\n      {purpose}")
    output.warn(warnings)


def _next_steps(settings: Settings, changes: Mapping[Key, Any]) -> dict[str, str]:
    """Return the commands to run after this one, each with its purpose."""
    steps = {program("serve"): f"run what is due, and the dashboard: http://{settings.host}:{settings.port}/"}
    if sys.platform == "darwin" or shutil.which("systemctl") is not None:
        steps[program("service", "install")] = "keep it running in the background"
    first, *others = CLIENTS
    steps[program("connect", first)] = f"connect an agent (or {', '.join(others)})"
    steps[program("notify", "send", "It works", "--topic", _topic(settings, changes))] = "a first notification"
    return steps


def _not_used_here(path: Path) -> list[str]:
    """Return a warning if another file replaces this one in the current folder."""
    _, used = find_file(os.environ, None)
    if not used.here or Path(used.file) == path.absolute():
        return []
    return [f"in this folder {used.file} is used instead; `duetime config set` changes it"]


def _address(settings: Settings, topic: str) -> str:
    return f"{settings.notifications.server.rstrip('/')}/{settings.notifications.prefix}{topic}"


def _topic(settings: Settings, changes: Mapping[Key, Any]) -> str:
    """Return the topic for a first test message: the channel that was just set up, if there is one."""
    new = (path[1] for path in changes if path[0] == "channels")
    return next(new, settings.notifications.topic or REMINDERS)


def _where(settings: Settings) -> str:
    notifications, names = settings.notifications, sorted(settings.channels)
    topics = f"topics that begin with {notifications.prefix}" if notifications.prefix else "no topic prefix"
    rest = f"{notifications.server}, {topics}" if notifications.server else "the inbox"
    return f"{', '.join(names)}; other topics: {rest}" if names else rest


def _warnings(settings: Settings, changes: Mapping[Key, Any]) -> list[str]:
    warnings = []
    if ("notifications", "server") in changes and changes.get(("notifications", "token")) == "":
        removed = "the token of the server before was taken out, for this one must not see it"
        warnings.append(f"{removed}; --token gives it its own")
    prefix = changes.get(("notifications", "prefix"))
    if prefix is not None and init_choices.is_public(settings.notifications.server) and len(prefix) < _GUESSABLE:
        warnings.append(
            "anyone who guesses this prefix can read your notifications; leave out --prefix to have one generated"
        )
    with closing(delivery_of(replace(settings, threads=1), SystemClock())) as delivery:
        warnings += delivery.problems()
    remaining = alerts_warning(settings)
    return [*warnings, remaining] if remaining else warnings
