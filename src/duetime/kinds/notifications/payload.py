"""The payload of a notification: its fields, with their checks and the options that the command has for them. An error
names its field and shows a valid example."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from duetime.engine.encoding import is_text
from duetime.engine.errors import InvalidInput
from duetime.engine.policy.options import checked_topic
from duetime.engine.value_class import dataclass
from duetime.service.payload_fields import About, Check, rule

MOST_ACTIONS = 3
_MOST_TAGS = 20
_LONGEST_LABEL = 200
_LONGEST_URL = 2048
_LABEL = re.compile(r"[A-Za-z0-9._-]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# A phone opens any link it is given: these would run code or show data of the reader's own device.
_UNSAFE_SCHEMES = frozenset({"javascript", "vbscript", "data", "file", "blob"})
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def _text(field: str, value: Any, example: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(field=field, problem=f"must be a non-empty text, for example {example}")
    if not is_text(value):
        raise InvalidInput(
            field=field, problem=f"contains invalid characters (NUL or lone surrogates); for example {example}"
        )
    return value


_body = partial(_text, example="Water the plants")
_title = partial(_text, example="Backup failed")
_tag = partial(_text, example='["warning", "backup"]')


def _topic(_: str, value: Any) -> str:
    return checked_topic(value)


def _list(field: str, value: Any, *, most: int, items: str, check: Check) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise InvalidInput(field=field, problem=f"must be a list of at most {most} {items}")
    return [check(field, each) for each in value]


def _url(field: str, value: Any, example: str) -> str:
    text = _text(field, value, example)
    if len(text) > _LONGEST_URL or any(char <= " " for char in text):
        raise InvalidInput(
            field=field, problem=f"must be a URL without spaces of at most {_LONGEST_URL} characters, such as {example}"
        )
    return text


def _web_url(field: str, value: Any) -> str:
    example = "https://example.org/picture.png"
    text = _url(field, value, example)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput(field=field, problem=f"must be an http or https URL, for example {example}")
    return text


def _link(field: str, value: Any) -> str:
    """Check a link, which may be anything that a phone can open, such as mailto: or an app's own scheme."""
    example = "https://example.org/ticket/7"
    text = _url(field, value, example)
    scheme, colon, rest = text.partition(":")
    if not (colon and rest and _SCHEME.fullmatch(scheme)) or scheme.lower() in _UNSAFE_SCHEMES:
        raise InvalidInput(
            field=field, problem=f"must be a link that a phone may open, for example {example} or mailto:me@example.org"
        )
    return text


def _filename(field: str, value: Any) -> str:
    text = _text(field, value, "report.pdf")
    if len(text) > 255 or any(char in "/\\" or char < " " for char in text) or text in (".", ".."):
        raise InvalidInput(field=field, problem="must be a plain file name without a folder, for example report.pdf")
    return text


def _label(field: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_LABEL or not _LABEL.fullmatch(value):
        raise InvalidInput(
            field=field,
            problem=f"letters, digits, dots, underscores and hyphens, at most {_LONGEST_LABEL} characters: for example"
            f" weekly-report; not {repr(value)[:80]}",
        )
    return value


_ACTION_EXAMPLE = '{"action": "view", "label": "Open", "url": "https://example.org"}'


def _texts(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidInput(
            field=field, problem='headers and extras must be objects of texts, for example {"Authorization": "..."}'
        )
    return {_text(field, name, "Authorization"): _string(field, text) for name, text in value.items()}


def _string(field: str, value: Any) -> str:
    return value if value == "" else _text(field, value, '"close the door"')


_flag = rule(lambda value: type(value) is bool, "must be true or false, for example true")
_method = rule(lambda value: value in _METHODS, f"method must be one of {', '.join(_METHODS)}, for example POST")
_SHARED: dict[str, Check] = {"label": partial(_text, example="Open"), "clear": _flag}
_ACTIONS: dict[str, tuple[tuple[str, ...], dict[str, Check]]] = {
    "view": (("label", "url"), {**_SHARED, "url": _link}),
    "http": (("label", "url"), {**_SHARED, "url": _web_url, "method": _method, "headers": _texts, "body": _string}),
    "broadcast": (("label",), {**_SHARED, "intent": _string, "extras": _texts}),
}
"""For each action of a button: its required keys, and the check of each of its keys."""


def _action(field: str, value: Any) -> dict[str, Any]:
    does = value.get("action") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(does, str) or does not in _ACTIONS:
        raise InvalidInput(
            field=field, problem=f"each has an action that is view, http or broadcast, for example {_ACTION_EXAMPLE}"
        )
    needed, known = _ACTIONS[does]
    for key in value:
        if key != "action" and key not in known:
            raise InvalidInput(
                field=field, problem=f"{does} has no {str(key)[:60]!r}; it has {', '.join(known)}: {_ACTION_EXAMPLE}"
            )
    for key in needed:
        if value.get(key) is None:
            raise InvalidInput(field=field, problem=f"{does} needs {key}, for example {_ACTION_EXAMPLE}")
    checked = {key: known[key](field, each) for key, each in value.items() if key != "action" and each is not None}
    return {"action": does, **checked}


def _read_button(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(f"--action: {text[:60]!r} is not JSON") from None


_priority = rule(
    lambda value: type(value) is int and 1 <= value <= 5,
    "must be a whole number from 1 (lowest) to 5 (highest), for example 4",
)
_tags = partial(_list, most=_MOST_TAGS, items='texts, for example ["warning", "backup"]', check=_tag)
_actions = partial(_list, most=MOST_ACTIONS, items=f"buttons, each such as {_ACTION_EXAMPLE}", check=_action)
_look = partial(About, heading="Appearance")
_TOPIC = "Topic to send to: a channel, or a topic that a phone subscribed to; by default that of the settings."
_BUTTONS = (
    "Buttons: {action: view, label: Open, url: https://...}; http, with method, headers, body; broadcast, with intent, "
    "extras; each with clear."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushMessage:
    """The payload of a notification."""

    message: Annotated[
        str,
        About(
            "Text of the notification.", argument="MESSAGE", option="--message TEXT", is_text_input=True, check=_body
        ),
    ]
    topic: Annotated[str | None, About(_TOPIC, option="--topic TOPIC", check=_topic)] = None
    title: Annotated[str | None, _look("Title above the message.", check=_title)] = None
    priority: Annotated[
        int | None, _look("1 to 5; 3 is usual, 5 keeps ringing.", minimum=1, maximum=5, check=_priority)
    ] = None
    tags: Annotated[
        list[str] | None, _look("Tags or emojis, such as warning.", option="--tag TAG", read_item=str, check=_tags)
    ] = None
    markdown: Annotated[bool | None, _look("The message is Markdown.", option="--markdown", check=_flag)] = None
    click: Annotated[str | None, _look("Link that a tap opens.", option="--click URL", check=_link)] = None
    actions: Annotated[
        list[dict[str, Any]] | None,
        _look(
            f"Button, at most {MOST_ACTIONS}: {_ACTION_EXAMPLE}.", brief=_BUTTONS, option="--action JSON",
            read_item=_read_button, maximum=MOST_ACTIONS, check=_actions,
        ),
    ] = None  # fmt: skip
    icon: Annotated[str | None, _look("URL of a picture.", option="--icon URL", check=_web_url)] = None
    attach: Annotated[str | None, _look("URL of a file to attach.", option="--attach URL", check=_web_url)] = None
    filename: Annotated[str | None, _look("Name of the attached file.", option="--filename NAME", check=_filename)] = (
        None
    )
    label: Annotated[str | None, _look("Name, such as weekly-report.", option="--label NAME", check=_label)] = None
