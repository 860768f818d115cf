"""An agent that is a program on this machine: one process per run, which leaves nothing behind."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import StopReason
from duetime.kinds.prompts.agent import AgentRequest, Reply
from duetime.kinds.prompts.agents.environment import MCP_CONFIG, standard_config, visible, write_private
from duetime.kinds.prompts.agents.presets import Invocation, PresetInput, preset_named
from duetime.kinds.prompts.agents.transcript import AnswerReader, EventReader, Reader, reply_of
from duetime.processes.child import ProcessSpec, StopRequest
from duetime.processes.output import OutputBuffer
from duetime.processes.supervisor import LIMITS, ChildLease, GuardedCommand, Limits
from duetime.security.redaction import Secrets
from duetime.settings import AgentSettings

log = logging.getLogger("duetime.agents")
_clock = SystemClock()
STDIN, ARGUMENT = "stdin", "argument"
_LONGEST_ARGUMENT = 128 * 1024 - 1
"""Bytes; Linux accepts no longer argument."""
_REPORTS = 1.0
"""Seconds between two reports of what the program is doing."""
_HURRIED = 0.5
"""Seconds of grace if the worker itself is about to end: it still has to record the outcome of the run."""
_SHUTDOWN = "the worker stopped before it was done"
_STOPPED = {
    StopReason.CANCELLED: "stopped on request",
    StopReason.LEASE: "its worker lost its lease before it was done",
    StopReason.SHUTDOWN: _SHUTDOWN,
}


class CommandAgent:
    def __init__(
        self,
        name: str,
        given: AgentSettings,
        *,
        environment: Mapping[str, str] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """Raises InvalidInput, naming the field."""
        self._name = name
        preset, command, prompt, model = given.preset, given.command, given.prompt, given.model
        self._preset = preset_named(preset) if preset else None
        self._program = preset or Path(command[0] if command else "").name
        self._command = command or ((preset,) if preset else ())
        if not self._command or not all(self._command) or "\0" in "".join(self._command):
            raise InvalidInput(f"agents.{name}: name a preset, or a command as a list of words", field="command")
        if prompt not in (STDIN, ARGUMENT):
            raise InvalidInput(f"agents.{name}: prompt is {STDIN} or {ARGUMENT}, not {prompt!r}", field="prompt")
        if self._preset and prompt != STDIN:
            raise InvalidInput(f"agents.{name}: a preset gives the prompt by {STDIN}; leave prompt out", field="prompt")
        if not model and any("{model}" in word for word in self._command):
            raise InvalidInput(f"agents.{name}: its command asks for a {{model}}; name one", field="model")
        self._as_argument = prompt == ARGUMENT
        self._env = given.env
        self._folder = str(Path(given.folder).expanduser()) if given.folder else ""
        self._model = model
        self._environment = os.environ if environment is None else environment
        self._limits = limits
        self._closed = False

    def wake(self, request: AgentRequest) -> Reply:
        env = visible(self._environment, (*self._env, *(self._preset.env if self._preset else ())))
        program = shutil.which(self._command[0], path=env.get("PATH", ""))
        problem = self._permanent_problem(request, program, env)
        if problem is not None or program is None:
            return Reply(error=problem, permanent=True)
        secrets = Secrets(request.access.token, env, request.access.env)
        try:
            with tempfile.TemporaryDirectory(prefix="duetime-run-", ignore_cleanup_errors=True) as private:
                return self._execute(request, program, Path(private), env, secrets)
        except OSError as error:  # no space for the folder, or no process can be started
            log.warning("agents.%s: %s cannot be started: %s", self._name, self._program, error)
            return Reply(
                error=f"{self._program} cannot be started here: {(error.strerror or 'no reason given').lower()}"
            )

    def close(self) -> None:
        """Stop all runs: each notices within a tick and ends its program."""
        self._closed = True

    def _permanent_problem(self, request: AgentRequest, program: str | None, env: Mapping[str, str]) -> str | None:
        """Return a problem that no retry would solve. Paths are only logged: the prompt's owner need not know them."""
        if self._folder and not Path(self._folder).is_dir():
            log.warning("agents.%s: there is no folder %s", self._name, self._folder)
            return f"the folder of agents.{self._name} does not exist; make it, or change `folder` in the settings"
        if program is None:
            log.warning("agents.%s: there is no program %s on %s", self._name, self._command[0], env.get("PATH"))
            return (
                f"there is no program {self._program}; install it where the worker finds it,"
                f" or give its path as `command` of agents.{self._name}"
            )
        if self._as_argument and "\0" in request.text:
            return f'the prompt holds a NUL, which no argument can; set prompt = "{STDIN}" for agents.{self._name}'
        if self._as_argument and (size := len(request.text.encode(errors="replace"))) > _LONGEST_ARGUMENT:
            return (
                f"the prompt is too long for an argument ({size} bytes, at most {_LONGEST_ARGUMENT});"
                f' set prompt = "{STDIN}" for agents.{self._name}'
            )
        return None

    def _execute(
        self, request: AgentRequest, program: str, private: Path, env: Mapping[str, str], secrets: Secrets
    ) -> Reply:
        reader: Reader = EventReader(self._preset.read) if self._preset else AnswerReader()
        stderr = OutputBuffer()
        spec = self._spec(request, program, private, env)._replace(stdout=reader.take, stderr=stderr.add)
        process = GuardedCommand(spec, ChildLease(request.lease, self._limits.patience), str(private))
        began = reported = _clock.monotonic()

        def report() -> bool:
            """Report what is new, if it is time; return False, because the run goes on."""
            nonlocal reported
            now, progress = _clock.monotonic(), reader.transcript.progress
            if now - reported >= _REPORTS and progress is not None:
                reported = now
                request.report(secrets.without(progress))
                reader.transcript.progress = None
            return False

        try:
            why = process.watch(lambda: self._stop_request(request, _clock.monotonic() - began), report)
        finally:
            process.close()
        if why is None and process.expired:  # by its deadline, so by no fault of its own
            request.stop.set(StopReason.LEASE)
            why = _STOPPED[StopReason.LEASE]
        reader.finish()
        return reply_of(self._program, reader.transcript, process.exit_status, why, stderr.text().strip(), secrets)

    def _stop_request(self, request: AgentRequest, passed: float) -> StopRequest | None:
        grace = self._limits.grace
        match request.stop.reason:
            case StopReason.LEASE as reason:
                return StopRequest(_STOPPED[reason])  # another worker may have the run by now
            case StopReason.SHUTDOWN as reason:
                return StopRequest(_STOPPED[reason], min(_HURRIED, grace))
            case StopReason.CANCELLED as reason:
                return StopRequest(_STOPPED[reason], grace)
            case None if self._closed:
                return StopRequest(_SHUTDOWN, grace)
            case None if passed < request.patience:
                return None
            case _:
                return StopRequest(f"timed out after {request.patience:g} s", grace)

    def _spec(self, request: AgentRequest, program: str, private: Path, env: Mapping[str, str]) -> ProcessSpec:
        invocation = self._invocation(request, private, env)
        work, scratch = private / "work", private / "tmp"
        work.mkdir()
        scratch.mkdir()  # programs leave error reports there, with the prompt
        return ProcessSpec(
            (*self._command_for(program, private), *invocation.flags),
            invocation.stdin.encode(),
            env={**env, "TMPDIR": str(scratch), **invocation.env},
            folder=self._folder or str(work),
        )

    def _invocation(self, request: AgentRequest, private: Path, env: Mapping[str, str]) -> Invocation:
        text = request.text.encode(errors="replace").decode()  # replaces lone surrogates, which cannot be encoded
        if self._preset is not None:
            folder, dollars = bool(self._folder), request.left.dollars
            return self._preset.prepare(PresetInput(text, request.access, private, self._model, folder, env, dollars))
        own = {"DUETIME_MCP_CONFIG": write_private(private / MCP_CONFIG, standard_config(request.access))}
        return Invocation(("--", text), "", own) if self._as_argument else Invocation((), text, own)

    def _command_for(self, program: str, private: Path) -> tuple[str, ...]:
        """Return the command; only the operator's own arguments have placeholders. The program is looked up from the
        worker's folder: where it works, somebody else may have put one of the same name."""
        config = str(private / MCP_CONFIG)
        words = (word.replace("{mcp_config}", config).replace("{model}", self._model) for word in self._command[1:])
        return (str(Path(program).absolute()), *words)
