"""`duetime init`: ask a few questions, and write the answers to `duetime.toml`."""

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
from duetime.kinds.prompts.kind import REMINDERS
from duetime.service.errors import refuse
from duetime.settings import CONFIG, FILE, Settings, data_folder, load_settings, user_file
from duetime.settings.locations import ADVICE, TrustedFiles, read_found
from duetime.settings.sections import INBOX
from duetime.terminal import output
from duetime.terminal.context import Json, program
from duetime.terminal.output import clean
from duetime.terminal.questions import agreed, somebody_there
from duetime.terminal.typer_ext import PlainCommand, bundled, option, single

HEADING = "# Settings of Duetime. It may hold tokens, so it is readable by its owner alone.\n"

commands = single()


@commands.command(cls=PlainCommand)
@bundled
def init(
    flags: init_choices.Choices,
    user: Annotated[bool, option("--user", "Write your own settings file, which serves in every folder.")] = False,
    yes: Annotated[bool, option("--yes", "Do not ask: flags say it, and what they leave out stays.")] = False,
    json_: Json = False,
) -> None:
    """Ask where notifications go, the time zone and the agent, and write duetime.toml, which is trusted then. What it
    says already is kept."""
    path = _place(user)
    before = _read(path)
    settings = load_settings(environment=_only(path)) if before else Settings()
    if yes or json_ or flags != init_choices.Choices():
        if flags.token == "-":  # noqa: S105 - a dash, not a password
            flags = replace(flags, token=sys.stdin.read().strip())
        choices = flags.checked(settings)
    else:
        if not somebody_there():
            raise InvalidInput("there is nobody here to ask; say --yes, with the flags that duetime init --help shows")
        print(f"Settings for Duetime, kept in {clean(path)}. Enter takes what stands in brackets.")
        choices = init_choices.from_questions(settings)
    changes = choices.changes(settings)
    if changes and (yes or _may_replace(path, before, changes, json_)):
        _write(path, _changed(path, before, changes))
    elif changes:
        print("Nothing was changed.")
        return
    _print_summary(path, changes, load_settings(environment=_only(path)) if path.exists() else settings, json_)


def _place(user: bool) -> Path:
    """Return the file to change. Changing the file of this folder trusts it, so its old content must be trusted."""
    if user:
        return user_file()
    if os.environ.get(CONFIG):
        return Path(os.environ[CONFIG])
    found = read_found(Path(FILE))
    refusal = "" if found is None else TrustedFiles(data_folder()).refusal(found)
    if refusal:
        advice = "so it is not changed; look at it, then run `duetime trust` first"
        raise refuse("not_possible", f"{FILE} {refusal.replace(ADVICE, advice)}")
    return Path(FILE)


def _only(path: Path) -> dict[str, str]:
    """Return an environment with this file alone, so that other variables do not end up in the file."""
    return {CONFIG: str(path.absolute())}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error


def _may_replace(path: Path, before: str, changes: dict[init_choices.Key, Any], json_: bool) -> bool:
    """Ask before replacing values in the file; additions need no confirmation."""
    replaced = [".".join(name) for name in changes if init_choices.value_at(tomllib.loads(before), name) is not None]
    if not replaced:
        return True
    if json_:
        raise refuse("not_possible", f"{path} says otherwise for {', '.join(replaced)}; --yes replaces it")
    return agreed(f"\n{clean(path)} says otherwise for {clean(', '.join(replaced))}. Replace it?")


def _changed(path: Path, before: str, changes: dict[init_choices.Key, Any]) -> str:
    try:
        return init_choices.with_values(before or HEADING, changes)
    except init_choices.CannotChange:
        names = ", ".join(".".join(name) for name in changes)
        raise InvalidInput(f"{path} is written in a way that is not changed here; set {names} in it yourself") from None


def _write(path: Path, text: str) -> None:
    """Write a new file beside the old one and check it there, so that an unusable file never replaces it."""
    made = path.with_name(f"{path.name}.new")
    try:
        made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made.unlink(missing_ok=True)
        made.touch(mode=0o600)
        made.write_text(text, encoding="utf-8")
        load_settings(environment=_only(made))
        if path == Path(FILE):  # trusted before it is moved: in a folder where that is impossible, nothing is written
            found = read_found(made)
            assert found is not None  # it was written a moment ago
            TrustedFiles(data_folder()).add(found._replace(path=path.resolve()))
        made.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror})") from error
    finally:
        made.unlink(missing_ok=True)


def _print_summary(path: Path, changes: dict[init_choices.Key, Any], settings: Settings, json_: bool) -> None:
    topics = [topic for topic in (REMINDERS, settings.notifications.alerts) if topic not in (INBOX, *settings.channels)]
    subscribe = {topic: _address(settings, topic) for topic in topics} if settings.notifications.server else {}
    managed = sys.platform == "darwin" or shutil.which("systemctl") is not None
    keeps_running = ("service", "install") if managed else ("serve",)
    test_message = ("notify", "send", "It works", "--topic", _topic(settings, changes))
    following = [program(*keeps_running), program(*test_message)]
    warnings = _warnings(settings, changes)
    if json_:
        facts = {"file": str(path), "written": [".".join(name) for name in changes], "subscribe": subscribe}
        output.print_json(facts | {"next": following, "warnings": warnings})
        return
    verb = f"Wrote {clean(path)}; only you can read it." if changes else f"{clean(path)} says all of this already."
    print(f"\n{verb}\n")
    no_agent = "none; prompts wait until a connected agent takes them"
    output.facts([
        ("notifications", _where(settings)),
        *([("alerts", place_of_alerts(settings))] if settings.channels else []),
        ("time zone", settings.timezone or "the machine's"),
        ("agent", no_agent if settings.agent == INBOX else settings.agent),
    ])  # fmt: skip
    if subscribe:
        width = max(map(len, subscribe.values()))
        print("\nOn your phone, install the app ntfy and subscribe to")
        for topic, address in subscribe.items():
            purpose = "reminders" if topic == REMINDERS else "what needs you: something failed, or a limit is reached"
            print(f"  {clean(address):<{width}}   {purpose}")
        print(f"and to {clean(_address(settings, 'TOPIC'))} for any other topic that you use.")
    print("\nNext:")
    for command in following:
        print(f"  {command}")
    output.warn(warnings)


def _address(settings: Settings, topic: str) -> str:
    return f"{settings.notifications.server.rstrip('/')}/{settings.notifications.prefix}{topic}"


def _topic(settings: Settings, changes: Mapping[init_choices.Key, Any]) -> str:
    """Return the topic for a first test message: the channel that was just set up, if there is one."""
    new = (path[1] for path in changes if path[0] == "channels")
    return next(new, REMINDERS if settings.notifications.server else next(iter(settings.channels), REMINDERS))


def _where(settings: Settings) -> str:
    server, names = settings.notifications.server, sorted(settings.channels)
    rest = f"{server}, topics that begin with {settings.notifications.prefix or 'nothing'}" if server else "the inbox"
    return f"{', '.join(names)}; other topics: {rest}" if names else rest


def _warnings(settings: Settings, changes: Mapping[init_choices.Key, Any]) -> list[str]:
    warnings = []
    if ("notifications", "server") in changes and changes.get(("notifications", "token")) == "":
        removed = "the token of the server before was taken out, for this one must not see it"
        warnings.append(f"{removed}; --token gives it its own")
    with closing(delivery_of(replace(settings, threads=1), SystemClock())) as delivery:
        warnings += delivery.problems()
    remaining = alerts_warning(settings)
    return [*warnings, remaining] if remaining else warnings
