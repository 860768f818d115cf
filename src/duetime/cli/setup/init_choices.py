"""Choices for `duetime init`, from flags or from questions. The default of each question is the current setting."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from duetime.engine.errors import DuetimeError, InvalidInput, unknown
from duetime.engine.policy.options import is_topic
from duetime.kinds.prompts.agents.presets import PRESETS
from duetime.kinds.prompts.kind import REMINDERS
from duetime.service.vocabulary import known_zone
from duetime.settings import Settings, local_zone
from duetime.settings.sections import INBOX
from duetime.settings.settings_file import Key, value_at
from duetime.terminal import output
from duetime.terminal.declarations import option
from duetime.terminal.input import ask, ask_secret, choose

PUBLIC = "https://ntfy.sh"
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 12
"""Number of characters, out of 31: too many combinations to try on a server with rate limits, but easy to type on a
phone."""


@dataclass(frozen=True, slots=True)
class Choices:
    """New values of settings, by flags or by answers; None leaves a setting as it is."""

    inbox: Annotated[bool, option("--inbox", "Send notifications to the built-in inbox.")] = False
    ntfy: Annotated[
        str | None, option("--ntfy URL", "Send notifications to this ntfy server, such as https://ntfy.sh.")
    ] = None
    prefix: Annotated[
        str | None, option("--prefix TEXT", "Prefix of all topics. For ntfy.sh, a random one is made by default.")
    ] = None
    token: Annotated[
        str | None, option("--token TOKEN", "Access token of the ntfy server; - reads it from standard input.")
    ] = None
    channel: Annotated[
        str | None, option("--channel NAME=URL", "Add a channel by its Apprise URL; the topic NAME goes there.")
    ] = None
    topic: Annotated[str | None, option("--topic TOPIC", "Default topic of notifications.")] = None
    timezone: Annotated[str | None, option("--timezone --tz ZONE", "IANA time zone; by default the machine's.")] = None
    agent: Annotated[
        str | None, option("--agent NAME", "Agent that prompts wake: inbox, claude, codex, gemini, goose or opencode.")
    ] = None

    def changes(self, settings: Settings) -> dict[Key, Any]:
        """Return the values that differ from the current settings, by the names of the settings."""
        server, token = "" if self.inbox else self.ntfy, self.token
        if token is None and server and _elsewhere(server, settings.notifications.server):
            token = ""
        values: dict[Key, Any] = {("timezone",): self.timezone, ("agent",): self.agent}
        topic = self.topic or self._implied_topic(settings.notifications.topic)
        notifications = {"server": server, "prefix": self.prefix, "token": token, "topic": topic}
        values |= {("notifications", name): value for name, value in notifications.items()}
        if self.channel is not None:
            name, url = self._name_and_url()
            values["channels", name, "url"] = url
        if self.agent is not None and self.agent in PRESETS and self.agent not in settings.agents:
            values["agents", self.agent, "preset"] = self.agent
        return {path: value for path, value in values.items() if value not in (None, value_at(settings, path))}

    def check(self, settings: Settings) -> Choices:
        """Refuse flags that cannot be used. Add an unguessable prefix on a public server, and the machine's zone."""
        if self.inbox and self.ntfy:
            raise InvalidInput("--inbox: cannot be combined with --ntfy; leave one of them out")
        prefix = self.prefix
        if self.ntfy and prefix is None and is_public(self.ntfy) and not settings.notifications.prefix:
            prefix = unguessable_prefix()
        _refuse("--ntfy", self.ntfy and _server_problem(self.ntfy, prefix or "", self.token or ""))
        _refuse("--timezone", self.timezone and _zone_problem(self.timezone))
        _refuse("--agent", self.agent and _agent_problem(self.agent, settings))
        _refuse("--topic", None if self.topic is None or is_topic(self.topic) else "write it as home-alerts")
        if self.channel is not None:
            name, url = self._name_and_url()
            if not url:
                raise InvalidInput("--channel: write it as NAME=URL, such as phone=tgram://bottoken/ChatID")
            _refuse("--channel", _name_problem(name))
        zone = local_zone(settings) if self.timezone is None and not settings.timezone else self.timezone
        return replace(self, prefix=prefix, timezone=zone)

    def _implied_topic(self, now: str) -> str | None:
        """Return the default topic for the chosen place; None leaves it as it is."""
        if self.inbox:
            return INBOX
        if now not in ("", INBOX):
            return None
        return REMINDERS if self.ntfy else self._name_and_url()[0] or None

    def _name_and_url(self) -> tuple[str, str]:
        name, _, url = (self.channel or "").partition("=")
        return name.strip(), url.strip()


def _elsewhere(server: str, before: str) -> bool:
    """Return whether this is a different server, which must not see the token that was given for the first one."""
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
        output.say("\nAnyone who guesses a topic on a public server can read it, so yours get an unguessable prefix.")
        proposed = proposed or unguessable_prefix()
    prefix = ask("They begin with", proposed, lambda text: _server_problem(server, text))
    return Choices(ntfy=server, prefix=prefix if prefix or settings.notifications.prefix else None)


def _which_agent(settings: Settings) -> str:
    """Ask even if no agent is installed, so that the choice is made for whoever installs one later."""
    options = {INBOX: "none: prompts wait until a connected agent takes them"}
    for name in sorted(PRESETS, key=lambda each: shutil.which(each) is None):
        state = "which is installed here" if shutil.which(name) else "once you have installed it"
        options[name] = f"{PRESETS[name].title} ({name}), {state}"
    options |= {name: f"{name}, from your settings" for name in settings.agents}
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
    return None if agent in known else unknown("agent", agent, known)
