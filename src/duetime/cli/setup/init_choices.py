"""Choices for `duetime init`, from flags or from questions. The default of each question is the present setting."""

from __future__ import annotations

import secrets
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.policy.options import is_topic
from duetime.engine.times.zones import known_zone
from duetime.kinds.prompts.agents.presets import PRESETS
from duetime.settings import Settings, local_zone
from duetime.settings.sections import INBOX
from duetime.terminal.questions import ask, ask_secret, choose
from duetime.terminal.typer_ext import option

if TYPE_CHECKING:
    from tomlkit.container import Container


Key: TypeAlias = tuple[str, ...]
"""The name of a setting: its tables, then its own."""
PUBLIC = "https://ntfy.sh"
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 12
"""Characters, out of 31: too many combinations to try on a server with rate limits, yet easy to type on a phone."""


@dataclass(frozen=True, slots=True)
class Choices:
    """New values of settings, by flags or by answers; None leaves a setting as it is."""

    inbox: Annotated[bool, option("--inbox", "Notifications go to the built-in inbox.")] = False
    ntfy: Annotated[str | None, option("--ntfy URL", "Notifications go to this ntfy server: https://ntfy.sh.")] = None
    prefix: Annotated[
        str | None, option("--prefix TEXT", "Before every topic. For ntfy.sh an unguessable one is made.")
    ] = None
    token: Annotated[str | None, option("--token TOKEN", "Of the ntfy server; - reads it from standard input.")] = None
    channel: Annotated[
        str | None, option("--channel NAME=URL", "Another place, by an Apprise URL; the topic NAME goes there.")
    ] = None
    timezone: Annotated[str | None, option("--timezone --tz ZONE", "An IANA zone; otherwise the machine's.")] = None
    agent: Annotated[
        str | None, option("--agent NAME", "Woken by prompts: inbox, claude, codex, gemini, goose, opencode.")
    ] = None

    def changes(self, settings: Settings) -> dict[Key, Any]:
        """Return the values that differ from the present settings, by the names of the settings."""
        server, token = "" if self.inbox else self.ntfy, self.token
        if token is None and server and _elsewhere(server, settings.notifications.server):
            token = ""
        wanted: dict[Key, Any] = {("timezone",): self.timezone, ("agent",): self.agent}
        notifications = {"server": server, "prefix": self.prefix, "token": token}
        wanted |= {("notifications", name): value for name, value in notifications.items()}
        if self.channel is not None:
            name, url = self._name_and_url()
            wanted["channels", name, "url"] = url
        if self.agent is not None and self.agent in PRESETS and self.agent not in settings.agents:
            wanted["agents", self.agent, "preset"] = self.agent
        return {path: value for path, value in wanted.items() if value not in (None, value_at(settings, path))}

    def checked(self, settings: Settings) -> Choices:
        """Refuse flags that cannot be used. Add an unguessable prefix on a public server, and the machine's zone."""
        if self.inbox and self.ntfy:
            raise InvalidInput("--inbox: and --ntfy exclude each other; leave one of them out")
        prefix = self.prefix
        if self.ntfy and prefix is None and is_public(self.ntfy) and not settings.notifications.prefix:
            prefix = unguessable_prefix()
        _refuse("--ntfy", self.ntfy and _server_problem(self.ntfy, prefix or "", self.token or ""))
        _refuse("--timezone", self.timezone and _zone_problem(self.timezone))
        _refuse("--agent", self.agent and _agent_problem(self.agent, settings))
        if self.channel is not None:
            name, url = self._name_and_url()
            if not url:
                raise InvalidInput("--channel: write it as NAME=URL, such as phone=tgram://bottoken/ChatID")
            _refuse("--channel", _name_problem(name))
        zone = local_zone(settings) if self.timezone is None and not settings.timezone else self.timezone
        return replace(self, prefix=prefix, timezone=zone)

    def _name_and_url(self) -> tuple[str, str]:
        name, _, url = (self.channel or "").partition("=")
        return name.strip(), url.strip()


def value_at(source: Any, path: Key) -> Any:
    """Return a value of the settings, or of the document that they are read from; None if there is none."""
    for name in path:
        source = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
    return source


def _elsewhere(server: str, before: str) -> bool:
    """Check whether this is another server, which must not see the token that was given for the first one."""
    new, old = urlsplit(server), urlsplit(before)
    return (new.scheme, new.netloc.lower()) != (old.scheme, old.netloc.lower())


def unguessable_prefix() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH)) + "-"


def is_public(server: str) -> bool:
    return urlsplit(server).hostname == urlsplit(PUBLIC).hostname


def _refuse(option: str, problem: str | None) -> None:
    if problem:
        raise InvalidInput(f"{option}: {problem}")


def from_questions(settings: Settings) -> Choices:
    choices = _where(settings)
    zone = ask("\nTime zone in which times are read and shown", local_zone(settings), _zone_problem)
    return replace(choices, timezone=zone, agent=_which_agent(settings))


def _where(settings: Settings) -> Choices:
    now = settings.notifications
    options = {
        INBOX: "the built-in inbox: `duetime inbox` shows them, and nothing leaves this machine",
        "ntfy.sh": "ntfy.sh: on your phone, without an account",
        "ntfy": "an ntfy server of your own",
        "apprise": "somewhere else, by an Apprise URL: mail, Slack, Telegram, Discord, the desktop ...",
    }
    set_up = INBOX if not now.server else "ntfy.sh" if is_public(now.server) else "ntfy"
    match choose("Where should notifications go?", options, set_up):
        case "ntfy.sh":
            return _with_prefix(settings, PUBLIC)
        case "ntfy":
            own = "" if is_public(now.server) else now.server
            server = ask("Its address, such as https://ntfy.example.org", own, _server_problem)
            token = ask_secret("Its token, if it asks for one (it is not shown)")
            return replace(_with_prefix(settings, server), token=token or None)
        case "apprise":
            name = ask("A name for it, which is the topic that goes there", "phone", _name_problem)
            url = ask_secret("The Apprise URL (it is not shown)")
            _refuse("the Apprise URL", None if url else "is empty")
            return Choices(channel=f"{name}={url}")
        case _:
            return Choices(inbox=True)


def _with_prefix(settings: Settings, server: str) -> Choices:
    proposed = settings.notifications.prefix
    if is_public(server):
        print("\nWhoever guesses a topic of a public server can read it, so yours begin with letters nobody guesses.")
        proposed = proposed or unguessable_prefix()
    prefix = ask("They begin with", proposed, lambda text: _server_problem(server, text))
    return Choices(ntfy=server, prefix=prefix if prefix or settings.notifications.prefix else None)


def _which_agent(settings: Settings) -> str | None:
    options = {INBOX: "none: prompts wait until a connected agent takes them"}
    installed = [name for name in PRESETS if shutil.which(name)]
    options |= {name: f"{PRESETS[name].title} ({name}), which is installed here" for name in installed}
    options |= {name: f"{name}, from your settings" for name in settings.agents}
    if len(options) == 1:
        return None
    default = settings.agent if settings.agent in options else INBOX
    return choose("Which agent should a due prompt wake?", options, default)


def _server_problem(server: str, prefix: str = "", token: str = "") -> str | None:
    from duetime.kinds.notifications.channels.ntfy import NtfyServer, problem_of

    problem = problem_of(NtfyServer(server, prefix, token))
    return None if problem is None else problem.partition(": ")[2]


def _zone_problem(zone: str) -> str | None:
    try:
        known_zone(zone)
    except DuetimeError as error:
        return error.message
    return None


def _name_problem(name: str) -> str | None:
    if is_topic(name) and name != INBOX:
        return None
    return f"lowercase letters and digits, joined by hyphens, and not {INBOX}: such as phone"


def _agent_problem(agent: str, settings: Settings) -> str | None:
    known: Mapping[str, object] = {INBOX: None, **PRESETS, **settings.agents}
    return None if agent in known else f"there is no {agent!r}; there are {', '.join(known)}"


# Changes to a TOML text that leave every other line, comments included, as they are.


class CannotChange(Exception):
    """Raised for a text that is not edited, such as one with inline tables."""


def with_values(text: str, changes: Mapping[Key, Any]) -> str:
    """Return the text with these values, each named by its tables and its key. The result is parsed and verified."""
    import tomlkit

    wanted, document = tomllib.loads(text), tomlkit.parse(text)
    if any(_without_header(document, path[:-1]) for path in changes):
        raise CannotChange
    for path, value in changes.items():
        _put(wanted, path, value, dict)
        _put(document, path, value, tomlkit.table)
    made = tomlkit.dumps(document).strip("\n") + "\n"
    if tomllib.loads(made) != wanted:  # values of tables that are written partly in dotted keys can be misplaced
        raise CannotChange
    return made


def _put(document: Any, path: Key, value: Any, table: Callable[[], Any]) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, table())
    document[path[-1]] = value


def _without_header(container: Container, tables: Key) -> bool:
    """Check whether a table is written as `name = {…}` or `name.key = …`, where a value has no line of its own."""
    from tomlkit.items import InlineTable, Table

    return any(
        isinstance(item, InlineTable)
        or (key.is_dotted() and len(tables) == 1)
        or (isinstance(item, Table) and _without_header(item.value, tables[1:]))
        for key, item in container.body
        if key is not None and tables[:1] == (key.key,)
    )
