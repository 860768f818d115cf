"""The meaning of each warning code, at length. Warnings themselves are one short sentence."""

from __future__ import annotations

from typing import Final

EXPLANATIONS: Final = {
    "no_worker": (
        "Schedules are stored, but no process carries them out. `duetime service install` keeps one running in the "
        "background; `duetime serve` or `duetime worker` runs one in a terminal. What is due meanwhile is caught up."
    ),
    "no_worker_for_kind": (
        "A worker runs, but takes other kinds of work, for example because it was started without the task modules. "
        "Start one that takes this kind as well: `duetime worker` with the same settings and --tasks."
    ),
    "session_worker_only": (
        "The only worker belongs to an agent client and ends with it. Whatever is due while no client is open waits "
        "until one is opened. `duetime service install` keeps a worker running without a client."
    ),
    "trigger": (
        "The rule is valid, but fires at other times than it may seem: on dates that not every month has, on either of "
        "two conditions, or around a change of the clocks. `preview_schedule` shows its next times."
    ),
    "time": "The time can be read in several ways. The warning says which one was taken; give it in full otherwise.",
    "no_agent": (
        "No agent is named in the settings, so that nobody is woken at the due time: the work waits until a connected "
        "agent takes it with take_prompt. Name an agent under [agents], and as `agent`, to have one woken."
    ),
    "no_channel": (
        "No channel to a person is set up. Messages are kept in the built-in inbox, which the dashboard and `duetime "
        "inbox` show, and reach no phone. Set a server or a channel in the settings: `duetime init` asks for one."
    ),
    "unknown_channel": (
        "The topic names no channel of the settings, and no server is set up that could carry it. The message is kept "
        "in the built-in inbox. Check the spelling of the topic, or set the channel up."
    ),
    "subscribe": (
        "Owners other than the operator have topics of their own on the server, so that nobody reads what is not "
        "theirs. A phone has to subscribe to the address that the warning names, once for each topic."
    ),
    "settings_differ": (
        "This process has settings of its own that say something else than those of `duetime serve` on the same store. "
        "The server's are used, so that everybody reads times and names alike. `duetime config path` tells which file "
        "is read here; leave the named settings out of it, or give the client the server's file with --config."
    ),
    "settings_changed": (
        "The settings file was changed after `duetime serve` read it. This process uses the file as it is now, and the "
        "server still has the old values. Restart the server; `duetime service install` does so for a service."
    ),
    "new_topic": (
        "Nothing else uses this topic. A message to a topic that nobody subscribes to reaches nobody, although it was "
        "sent. Check its spelling against `topics` and `channels`, or ask the person which topic their phone has."
    ),
    "agent_not_ready": (
        "The agent is named in the settings, but cannot be woken from here as things stand: its program, its key or "
        "its folder is missing. The warning names which. `duetime doctor` checks all agents."
    ),
    "not_allowed": (
        "What was asked for goes beyond what the operator allows this agent, or beyond what the run that asks may use "
        "itself. It was left out; the operator can allow it in the settings of the agent."
    ),
    "note": "The message was accepted; the warning says what its receiver or its channel reported besides.",
    "left_out": "Some of what was chosen could not be changed; the others were. The warning says how many and why.",
}
"""Explanations by code."""
