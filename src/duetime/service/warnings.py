"""Warnings about schedules: one sentence of at most 120 characters each, with a code for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from duetime.engine.value_class import NamedTuple

LONGEST: Final = 120
DELIVERY_PREFIX: Final = "deliver_to: "
"""Prefix of a warning about the delivery of results."""
SENTENCES: Final[dict[str, str]] = {}
"""The sentences of all codes, with placeholders. Each module declares its own."""
TIME: Final = "time"
EXPLANATIONS: Final = {
    "no_listener": (
        "The event is stored, but no schedule waits for one of this name, so nothing runs. A schedule that is created "
        "later gets only later events; the names that arrived are in `events` of the status."
    ),
    "event_unknown": (
        "The schedule waits for an event of which none has arrived yet. That is all right if its sender is still to be "
        "set up; otherwise compare the name with those in `events` of the status."
    ),
    "unknown_path": (
        "In the texts of a schedule that waits for an event, {path} stands for a value of the event. The latest event, "
        "or the end of a run that it follows, has none at this path, so the text stays as it is written; {{ is a brace."
    ),
    "no_event": (
        "{text} stands for the result of the run before, in a schedule that follows another one; this one has times. "
        "What its condition only_if saw is added to the end of a message; a task reads it as `context.gate`."
    ),
    "no_worker": (
        "Schedules are stored, but no process executes them. `duetime service install` keeps one running in the "
        "background; `duetime serve` or `duetime worker` runs one in a terminal. Missed work is caught up then."
    ),
    "no_worker_for_kind": (
        "A worker runs, but takes other kinds of work, for example because it was started without the task modules. "
        "Start one that takes this kind as well: `duetime worker` with the same settings and --tasks."
    ),
    "no_worker_for_task": (
        "Every worker that runs was started without the module that registers this task. Start one with --tasks and "
        "that module, or name it under `tasks` in the settings and restart; until then the runs wait."
    ),
    "no_worker_for_label": (
        "A task that needs a label runs only on workers that have it, and none of those is running. Start one with "
        "`duetime worker --label`, or add the label to `labels` in the settings of a machine that can do this work."
    ),
    "session_worker_only": (
        "The only worker belongs to an agent client and ends with it. Whatever is due while no client is open waits "
        "until one is opened. `duetime service install` keeps a worker running without a client."
    ),
    "trigger": (
        "The rule is valid, but may fire at unexpected times: on dates that not every month has, on either of two "
        "conditions, or around a clock change. `preview_schedule` shows its next times."
    ),
    "incomplete": (
        "A list of upcoming times may lack some: so many schedules or such expensive rules were found that not all "
        "could be evaluated. Ask for one kind or topic, or for a shorter time."
    ),
    TIME: "The time can be read in several ways. The warning says which one was chosen; otherwise give it in full.",
    "moved": (
        "The next time of a recurring schedule was moved past other times of its rule. Those are neither run nor "
        "caught up. Move the next time to an earlier one, or edit the rule, if they should run."
    ),
    "host_not_allowed": (
        "Conditions call only public hosts, and those in `allowed_hosts` of the settings. A check that fails does the "
        "work anyway or, with gate_failure skip, skips it; `duetime runs show` says why."
    ),
    "address_not_allowed": (
        "Requests reach only public hosts, and those in `allowed_hosts` of the settings of the worker. Every run of "
        "this one fails until the operator adds the host there."
    ),
    "all_paused": (
        "Everything that the owner had scheduled was paused. A pause covers what exists at that time, so that a new "
        "schedule fires nevertheless. Pause it too if it should wait as well."
    ),
    "cancelled": (
        "An idempotency key always returns what it created first, also after that was cancelled. Give another key to "
        "create a new schedule."
    ),
    "declared_elsewhere": (
        "A file or a module of tasks declares the schedule. The next `duetime apply` of the file, or the next start of "
        "a worker whose declaration has changed, makes it what is declared there. Make the change there, too."
    ),
    "no_agent": (
        "The settings name no agent, so none is woken at the due time: the prompt waits until a connected agent takes "
        "it with take_prompt. To have one woken, define an agent under [agents] and set it as `agent`."
    ),
    "no_channel": (
        "The dashboard and `duetime inbox` show the messages of the built-in inbox. To reach a phone, configure a "
        "server or a channel: `duetime init` asks for one."
    ),
    "unknown_channel": (
        "The topic is not the name of a channel, and no server is set up that could deliver it. The message is kept in "
        "the built-in inbox. Check the spelling of the topic, or set up the channel."
    ),
    "subscribe": (
        "Owners other than the operator have their own topics on the server, so that nobody can read another owner's "
        "messages. A phone must subscribe to the address in the warning, once for each topic."
    ),
    "settings_differ": (
        "The settings of this process differ from those of `duetime serve` on the same store. The server's are used, "
        "so that all processes interpret times and names alike. `duetime config path` shows which file is read here; "
        "remove the named settings from it, or give the client the server's file with --config."
    ),
    "settings_changed": (
        "The settings file was changed after `duetime serve` read it. This process uses the file as it is now, and the "
        "server still has the old values. Restart the server; `duetime service install` does so for a service."
    ),
    "new_topic": (
        "Nothing else uses this topic. A message to a topic without subscribers reaches nobody, although it was sent. "
        "Check its spelling against `topics` and `channels`, or ask the person which topic their phone subscribes to."
    ),
    "agent_not_ready": (
        "The agent is defined in the settings, but cannot currently be woken from here: its program, key or folder is "
        "missing. The warning says which. `duetime doctor` checks all agents."
    ),
    "not_allowed": (
        "The request goes beyond what the operator allows this agent, or beyond what the requesting run may use. "
        "That part was left out; the operator can allow it in the agent's settings."
    ),
    "note": "The message was accepted; the warning contains what its receiver or channel reported.",
    "left_out": "Some of the selected items could not be changed; the others were. The warning says how many and why.",
}
"""A longer explanation of each code."""


class ScheduleWarning(NamedTuple):
    """A reason why a schedule might not fire, or its result not arrive."""

    code: str
    text: str


def declare(**sentences: str) -> None:
    """Register the sentences of further codes."""
    SENTENCES.update(sentences)


def warning(code: str, **values: str) -> ScheduleWarning:
    """Return a declared warning. If it is too long, the last of the values is cut first."""
    if not values:
        return ScheduleWarning(code, SENTENCES[code])
    room = LONGEST - len(DELIVERY_PREFIX)
    for name in reversed(values):
        excess = len(SENTENCES[code].format(**values)) - room
        if excess > 0:
            values[name] = values[name][: max(0, len(values[name]) - excess - 3)] + "..."
    return ScheduleWarning(code, SENTENCES[code].format(**values))


def time_warnings(notes: Iterable[str]) -> list[ScheduleWarning]:
    """Return warnings that say how a time was understood."""
    return [ScheduleWarning(TIME, note) for note in notes]


def warning_facts(warnings: Sequence[ScheduleWarning]) -> dict[str, list[str]]:
    """Return warnings and their codes, in the same order, for an answer."""
    return {"warnings": [each.text for each in warnings], "warning_codes": [each.code for each in warnings]}
