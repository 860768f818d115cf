"""Error messages for the command line, which name options instead of fields and the invalid part of a cron
expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duetime.engine.errors import DuetimeError
from duetime.service.text import clean

ONE_WAY = "exactly one of --at, --delay, --every, --cron, --rrule, --when, --on and --after"
_SAME = (
    "after", "agent", "at", "attach", "click", "cron", "delay", "end", "every", "filename", "icon", "jitter", "label",
    "max_dollars_per_day", "max_runs_per_day", "max_tokens_per_day", "priority", "rrule", "start", "starting", "title",
    "topic", "from", "until", "note", "longer_than", "shorter_than", "when",
)  # fmt: skip
# The engine names fields of triggers, payloads and policies; the user knows them as options.
_OPTIONS = {
    "run_at": "--at",
    "seconds": "--every",
    "expression": "--cron",
    "timezone": "--tz",
    "idempotency_key": "--key",
    "ids": "ID",
    "expected_count": "--expected",
    "trigger_config": "the trigger",
    "payload": "the arguments",
    "to": "--until",
    **{name: "--" + name.replace("_", "-") for name in _SAME},
}

_IN_TEXTS = {
    "ids, or a filter (kind, topic, label, tagged, status, older_than), or all": (
        "ids, or a filter (--kind, --topic, --label, --tagged, --status, --older-than), or --all"
    ),
    "with kind, topic or label": "with --kind, --topic or --label",
    "dry_run": "--dry-run",
    "so say how many;": "so say how many, or pass --yes;",
    "this idempotency_key": "this --key",
    "the time of from;": "the time of --from;",
}
"""The names of options within the messages for other interfaces."""


def name_fields(names: Mapping[str, str]) -> None:
    """Register how users of the command line know the payload fields of a kind: by options, or as an argument."""
    _OPTIONS.update(names)


def _policy_option(field: str) -> str:
    from duetime.engine.policy.options import RULES  # only an error needs it

    return "--" + field.replace("_", "-") if field in RULES else ""


def command_message(error: DuetimeError) -> str:
    message, code, field = error.message, error.code, error.details.get("field")
    if field and message.startswith(f"{field}:") and (option := _OPTIONS.get(field) or _policy_option(field)):
        message = option + message.removeprefix(field)
    if field == "when" and message.startswith("give exactly one of"):
        message = f"give {ONE_WAY}"
    if field in ("ids", "expected_count", "idempotency_key", "until", "to") or code == "key_reused":
        for name, option in _IN_TEXTS.items():
            message = message.replace(name, option)
    if message.startswith("Invalid cron"):
        from duetime.service.when import with_cron_fault

        message = with_cron_fault(message)
    if field == "status":
        message = message.replace(
            "Choose one of: pending, running, paused, completed, failed",
            "Choose one of: scheduled (or pending), running, paused, completed, failed (or failing)",
        ).removesuffix(", living")
    if code == "store_unavailable":
        message = message.removesuffix("; work continues when it is back").removesuffix("; it will be retried")
        message += "; check --db, and try again"
    return message


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return the names that the user may have meant, as the rest of a sentence; empty if there are none."""
    import difflib

    names = {name.lower(): name for name in reversed(list(known))}
    lower = text.lower()
    begin = [name for word, name in names.items() if len(lower) > 1 and word.startswith(lower)]
    close = [names[word] for word in difflib.get_close_matches(lower, names, n=2, cutoff=0.7)]
    similar = list(dict.fromkeys([*close, *begin]))[:2]
    return f"; did you mean {' or '.join(clean(name) for name in similar)}?" if similar else ""
