"""Choices for `duetime init`, from flags or from questions. The default of each question is the present setting."""

from __future__ import annotations

import secrets
import shutil
import tomllib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.policy.options import is_topic
from duetime.engine.times.zones import known_zone
from duetime.kinds.prompts.agents.presets import PRESETS
from duetime.settings import Settings, local_zone
from duetime.settings.sections import INBOX
from duetime.terminal.questions import ask, ask_secret, choose

if TYPE_CHECKING:
    from tomlkit.container import Container


Key: TypeAlias = tuple[str, ...]
"""The name of a setting: its tables, then its own."""
PUBLIC = "https://ntfy.sh"
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 12
"""Characters, out of 31: too many combinations to try on a server with rate limits, yet easy to type on a phone."""


class Choices(NamedTuple):
    """New values of settings; None leaves a setting as it is."""

    server: str | None = None
    prefix: str | None = None
    token: str | None = None
    channel: tuple[str, str] | None = None
    zone: str | None = None
    agent: str | None = None

    def changes(self, settings: Settings) -> dict[Key, Any]:
        """Return the values that differ from the present settings, by the names of the settings."""
        wanted: dict[Key, Any] = {}
        if self.zone is not None and self.zone != settings.timezone:
            wanted["timezone",] = self.zone
        if self.agent is not None and self.agent != settings.agent:
            wanted["agent",] = self.agent
        now = settings.notifications
        token = "" if self.token is None and self.server and _elsewhere(self.server, now.server) else self.token
        for name, value in (("server", self.server), ("prefix", self.prefix), ("token", token)):
            if value is not None and value != getattr(now, name):
                wanted["notifications", name] = value
        if self.channel is not None:
            name, url = self.channel
            if name not in settings.channels or settings.channels[name].url != url:
                wanted["channels", name, "url"] = url
        if self.agent is not None and self.agent in PRESETS and self.agent not in settings.agents:
            wanted["agents", self.agent, "preset"] = self.agent
        return wanted


def _elsewhere(server: str, before: str) -> bool:
    """Check whether this is another server, which must not see the token that was given for the first one."""
    new, old = urlsplit(server), urlsplit(before)
    return (new.scheme, new.netloc.lower()) != (old.scheme, old.netloc.lower())


def unguessable_prefix() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH)) + "-"


def is_public(server: str) -> bool:
    return urlsplit(server).hostname == urlsplit(PUBLIC).hostname


def from_flags(
    settings: Settings,
    *,
    inbox: bool,
    server: str | None,
    prefix: str | None,
    token: str | None,
    channel: str | None,
    zone: str | None,
    agent: str | None,
) -> Choices:
    if inbox and server:
        raise InvalidInput("--inbox: and --ntfy exclude each other; leave one of them out")
    if inbox:
        server = ""
    if server and prefix is None and is_public(server) and not settings.notifications.prefix:
        prefix = unguessable_prefix()
    _refuse("--ntfy", server and _server_problem(server, prefix or "", token or ""))
    _refuse("--timezone", zone and _zone_problem(zone))
    _refuse("--agent", agent and _agent_problem(agent, settings))
    missing = local_zone(settings) if zone is None and not settings.timezone else zone
    if channel is None:
        return Choices(server, prefix, token, None, missing, agent)
    name, _, url = (part.strip() for part in channel.partition("="))
    if not url:
        raise InvalidInput("--channel: write it as NAME=URL, such as phone=tgram://bottoken/ChatID")
    _refuse("--channel", _name_problem(name))
    return Choices(server, prefix, token, (name, url), missing, agent)


def _refuse(option: str, problem: str | None) -> None:
    if problem:
        raise InvalidInput(f"{option}: {problem}")


def from_questions(settings: Settings) -> Choices:
    choices = _where(settings)
    zone = ask("\nTime zone in which times are read and shown", local_zone(settings), _zone_problem)
    return choices._replace(zone=zone, agent=_which_agent(settings))


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
            return _with_prefix(settings, server)._replace(token=token or None)
        case "apprise":
            name = ask("A name for it, which is the topic that goes there", "phone", _name_problem)
            url = ask_secret("The Apprise URL (it is not shown)")
            _refuse("the Apprise URL", None if url else "is empty")
            return Choices(channel=(name, url))
        case _:
            return Choices(server="" if now.server else None)


def _with_prefix(settings: Settings, server: str) -> Choices:
    proposed = settings.notifications.prefix
    if is_public(server):
        print("\nWhoever guesses a topic of a public server can read it, so yours begin with letters nobody guesses.")
        proposed = proposed or unguessable_prefix()
    prefix = ask("They begin with", proposed, lambda text: _server_problem(server, text))
    return Choices(server=server, prefix=prefix if prefix or settings.notifications.prefix else None)


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
