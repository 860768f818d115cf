"""An agent that is a program on this machine: one process per run, which leaves nothing behind."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from duetime.engine.errors import InvalidInput
from duetime.kinds.prompts.agent import Errand, Reply
from duetime.kinds.prompts.agents.environment import Secrets, visible
from duetime.kinds.prompts.agents.mcp_config import MCP_CONFIG, common, write_private
from duetime.kinds.prompts.agents.presets import Outfit, Visit, preset_named
from duetime.kinds.prompts.agents.process import TIME_LIMITS, Ended, Launch, LeashedProcess, TimeLimits, supervise
from duetime.kinds.prompts.agents.transcript import AnswerReader, EventReader, Heard, Reader
from duetime.processes.child_lease import ChildLease

# The reply of a run: from the program's output, how it ended, and why it was stopped.

_LAST_WORDS = 300
"""Characters of standard error that an error message shows."""


def reply_of(program: str, heard: Heard, ended: Ended, why: str | None, last_words: str, secrets: Secrets) -> Reply:
    """Return the reply. `why` is the reason if the program was stopped; what it did until then is included anyway."""
    error = why or _failure(program, heard, ended, secrets.without(last_words))
    reply = told(heard, error, secrets)
    return replace(reply, exit_code=ended.code, permanent=why is None and ended.errno is not None)


def told(heard: Heard, error: str | None, secrets: Secrets) -> Reply:
    """Return what an agent said, with the secrets that it was given redacted."""
    return Reply(
        text=secrets.without(heard.text),
        outcome=secrets.cleaned(heard.outcome),
        tool_calls=secrets.cleaned(heard.view()),
        earlier_calls=heard.earlier_calls,
        denied=[secrets.without(name) for name in heard.denied],
        spent=heard.spent,
        error=None if error is None else secrets.in_short(error),
    )


def _failure(program: str, heard: Heard, ended: Ended, last_words: str) -> str | None:
    because = f": {_end_of(last_words)}" if last_words else ""
    if ended.errno is not None:
        return f"{program} cannot be started: {os.strerror(ended.errno).lower()}"
    if ended.signal is not None:
        return f"{program} was ended by {_signal_name(ended.signal)}{because}"
    if heard.error is not None:
        return f"{program} failed: {heard.error}"
    if ended.code is None:
        return f"{program} disappeared together with what held it{because}"
    if ended.code != 0:
        return f"{program} ended with exit code {ended.code}{because}"
    if not heard.ended:
        said = f": {heard.beginning}" if heard.beginning else because
        return f"{program} did not answer in the form that its preset asks for; try its latest version{said}"
    return shortcoming(program, heard)


def shortcoming(who: str, heard: Heard) -> str | None:
    """Return what is wrong with an answer that arrived normally and reports no failure itself, if anything."""
    if heard.unreadable is not None:
        return f"{who} {heard.unreadable}"
    if heard.denied:
        return f"it was not allowed to use {', '.join(heard.denied)}; allow it, or word the prompt otherwise"
    return None


def _end_of(text: str) -> str:
    return text if len(text) <= _LAST_WORDS else "..." + text[3 - _LAST_WORDS :]


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"
    return f"{name} (the system may have run out of memory)" if name == "SIGKILL" else name


log = logging.getLogger("duetime.agents")
STDIN, ARGUMENT = "stdin", "argument"
_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes; Linux accepts no longer argument."""


class CommandAgent:
    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str] = (),
        preset: str = "",
        prompt: str = STDIN,
        env: Sequence[str] = (),
        folder: str = "",
        model: str = "",
        environment: Mapping[str, str] | None = None,
        limits: TimeLimits = TIME_LIMITS,
    ) -> None:
        """Raises InvalidInput, naming the field. With a preset, `command` is how its program is called, if not by its
        name. `{mcp_config}` and `{model}` in a command stand for the MCP configuration file and the model."""
        self._name = name
        self._preset = preset_named(preset) if preset else None
        self._program = preset or Path(command[0] if command else "").name
        self._command = tuple(command) or ((preset,) if preset else ())
        if not self._command or not all(self._command) or "\0" in "".join(self._command):
            raise InvalidInput(f"agents.{name}: name a preset, or a command as a list of words", field="command")
        if prompt not in (STDIN, ARGUMENT):
            raise InvalidInput(f"agents.{name}: prompt is {STDIN} or {ARGUMENT}, not {prompt!r}", field="prompt")
        if self._preset and prompt != STDIN:
            raise InvalidInput(f"agents.{name}: a preset gives the prompt by {STDIN}; leave prompt out", field="prompt")
        if not model and any("{model}" in word for word in self._command):
            raise InvalidInput(f"agents.{name}: its command asks for a {{model}}; name one", field="model")
        self._as_argument = prompt == ARGUMENT
        self._env = tuple(env)
        self._folder = str(Path(folder).expanduser()) if folder else ""
        self._model = model
        self._environment = os.environ if environment is None else environment
        self._limits = limits
        self._closed = False

    def wake(self, errand: Errand) -> Reply:
        env = visible(self._environment, (*self._env, *(self._preset.env if self._preset else ())))
        hindrance = self._hindrance(errand, env)
        if hindrance is not None:
            return Reply(error=hindrance, permanent=True)
        secrets = Secrets(errand.access.token, env, errand.access.env)
        try:
            with _private_folder() as private:
                return self._carry_out(errand, private, env, secrets)
        except OSError as error:  # no space for the folder, or no process can be started
            log.warning("agents.%s: %s cannot be started: %s", self._name, self._program, error)
            return Reply(
                error=f"{self._program} cannot be started here: {(error.strerror or 'no reason given').lower()}"
            )

    def close(self) -> None:
        """Stop all runs: each notices within a tick and ends its program."""
        self._closed = True

    def _found(self, env: Mapping[str, str]) -> str | None:
        return shutil.which(self._command[0], path=env.get("PATH", ""))

    def _hindrance(self, errand: Errand, env: Mapping[str, str]) -> str | None:
        """Return a problem that no retry would solve. Paths are only logged: the prompt's owner need not know them."""
        if self._folder and not Path(self._folder).is_dir():
            log.warning("agents.%s: there is no folder %s", self._name, self._folder)
            return f"the folder of agents.{self._name} does not exist; make it, or change `folder` in the settings"
        if self._found(env) is None:
            log.warning("agents.%s: there is no program %s on %s", self._name, self._command[0], env.get("PATH"))
            return (
                f"there is no program {self._program}; install it where the worker finds it,"
                f" or give its path as `command` of agents.{self._name}"
            )
        if self._as_argument and "\0" in errand.text:
            return f'the prompt holds a NUL, which no argument can; set prompt = "{STDIN}" for agents.{self._name}'
        if self._as_argument and (size := len(errand.text.encode(errors="replace"))) > _LONGEST_ARGUMENT:
            return (
                f"the prompt is too long for an argument ({size} bytes, at most {_LONGEST_ARGUMENT});"
                f' set prompt = "{STDIN}" for agents.{self._name}'
            )
        return None

    def _carry_out(self, errand: Errand, private: Path, env: Mapping[str, str], secrets: Secrets) -> Reply:
        reader: Reader = EventReader(self._preset.read) if self._preset else AnswerReader()
        process = LeashedProcess(self._launch(errand, private, env))
        try:
            why = supervise(process, errand, reader, secrets, self._limits, lambda: self._closed)
        finally:
            ended, rest = process.end()
        for data in rest:
            reader.take(data)
        reader.finish()
        return reply_of(self._program, reader.heard, ended, why, process.err.text().strip(), secrets)

    def _launch(self, errand: Errand, private: Path, env: Mapping[str, str]) -> Launch:
        outfit = self._outfit(errand, private, env)
        work, scratch = private / "work", private / "tmp"
        work.mkdir()
        scratch.mkdir()  # programs leave error reports there, with the prompt
        return Launch(
            (*self._command_for(private, env), *outfit.flags),
            {**env, "TMPDIR": str(scratch), **outfit.env},
            self._folder or str(work),
            str(private),
            outfit.given.encode(),
            ChildLease(errand.lease, self._limits.unheard).deadline(),
        )

    def _outfit(self, errand: Errand, private: Path, env: Mapping[str, str]) -> Outfit:
        text = errand.text.encode(errors="replace").decode()  # replaces lone surrogates, which cannot be encoded
        if self._preset is not None:
            folder, dollars = bool(self._folder), errand.left.dollars
            return self._preset.dress(Visit(text, errand.access, private, self._model, folder, env, dollars))
        own = {"DUETIME_MCP_CONFIG": write_private(private / MCP_CONFIG, common(errand.access))}
        return Outfit(("--", text), "", own) if self._as_argument else Outfit((), text, own)

    def _command_for(self, private: Path, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command; only the operator's own arguments have placeholders. The program is looked up from the
        worker's folder: where it works, somebody else may have put one of the same name."""
        found = self._found(env)
        if found is None:  # it was there a moment ago
            raise FileNotFoundError(errno.ENOENT, "its program is gone")
        config = str(private / MCP_CONFIG)
        words = (word.replace("{mcp_config}", config).replace("{model}", self._model) for word in self._command[1:])
        return (str(Path(found).absolute()), *words)


@contextmanager
def _private_folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="duetime-run-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
