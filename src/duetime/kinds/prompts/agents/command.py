"""An agent that is a program on this machine: one process per run, which leaves nothing behind."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from duetime.engine.clock import SystemClock
from duetime.engine.errors import InvalidInput
from duetime.engine.kind import LOCAL, STOPPED, StopReason
from duetime.engine.worker.capture import write_log
from duetime.kinds.prompts.agent import CANNOT_START, AgentReply, AgentRequest
from duetime.kinds.prompts.agents.environment import MCP_CONFIG, SERVER, standard_config, visible, write_private
from duetime.kinds.prompts.agents.gateway import OpeningStopped, opened
from duetime.kinds.prompts.agents.gateway_tools import ToolSources, gateway_for
from duetime.kinds.prompts.agents.presets import Invocation, PresetInput, preset_named
from duetime.kinds.prompts.agents.transcript import AnswerReader, EventReader, Reader, reply_of
from duetime.kinds.prompts.agents.user_servers import ServerUnreachable
from duetime.kinds.prompts.allowance import Allowance
from duetime.processes.child import ProcessSpec, Sink, StopRequest
from duetime.processes.output import LineBuffer, OutputBuffer
from duetime.processes.supervisor import LIMITS, ChildLease, GuardedCommand, ProcessLimits
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
"""Seconds of grace if the worker itself is about to end, because it still has to record the outcome of the run."""


class LoggedOutput:
    """An output of the program, whose lines are also in the log of the run, without the secrets that it was given."""

    def __init__(self, sink: Sink, secrets: Secrets) -> None:
        self._sink, self._secrets, self._lines = sink, secrets, LineBuffer()

    def take(self, data: bytes) -> None:
        self._sink(data)
        self._write(self._lines.feed(data))

    def finish(self) -> None:
        self._write(self._lines.rest())

    def _write(self, lines: Sequence[bytes]) -> None:
        if lines:
            text = b"\n".join(lines).decode("utf-8", "replace")
            write_log(f"{self._secrets.without(text)}\n")


class CommandAgent:
    def __init__(
        self,
        name: str,
        settings: AgentSettings,
        *,
        environment: Mapping[str, str] | None = None,
        limits: ProcessLimits = LIMITS,
        sources: ToolSources | None = None,
    ) -> None:
        """Raises InvalidInput, naming the field."""
        self._name = name
        preset, command, prompt, model = settings.preset, settings.command, settings.prompt, settings.model
        self._preset = preset_named(preset) if preset else None
        self._program = preset or Path(command[0] if command else "").name
        self._command = command or ((preset,) if preset else ())
        if not self._command or not all(self._command) or "\0" in "".join(self._command):
            raise InvalidInput(f"agents.{name}: name a preset, or a command as a list of words", field="command")
        if prompt not in (STDIN, ARGUMENT):
            raise InvalidInput(f"agents.{name}: prompt is {STDIN} or {ARGUMENT}, not {prompt!r}", field="prompt")
        if self._preset and prompt != STDIN:
            raise InvalidInput(
                f"agents.{name}: a preset passes the prompt on {STDIN}; leave prompt out", field="prompt"
            )
        if not model and any("{model}" in word for word in self._command):
            raise InvalidInput(f"agents.{name}: its command contains {{model}}; name a model", field="model")
        self._as_argument = prompt == ARGUMENT
        self._allowance = Allowance.of_agent(settings)
        self._sources = ToolSources(skills=settings.skills) if sources is None else sources
        self._model = model
        self._environment = os.environ if environment is None else environment
        self._limits = limits
        self._closed = False

    def wake(self, request: AgentRequest) -> AgentReply:
        allowance = self._allowance if request.allowance is None else request.allowance
        env = self._visible(allowance)
        program = shutil.which(self._command[0], path=env.get("PATH", ""))
        problem = self._missing(allowance, program, request.owner) or self._permanent_problem(request)
        if problem is not None or program is None:
            return AgentReply(error=problem, permanent=True)
        web = self._preset is None or not self._preset.has_web
        gateway = gateway_for(request, allowance, self._sources, self._environment, web=web)
        began = _clock.monotonic()

        def stop_request() -> StopRequest | None:
            return self._stop_request(request, _clock.monotonic() - began)

        try:
            with (
                tempfile.TemporaryDirectory(prefix="duetime-run-", ignore_cleanup_errors=True) as private,
                opened(gateway, stop_request) as tools,
            ):
                inputs = PresetInput(
                    text=request.text.encode(errors="replace").decode(),  # lone surrogates cannot be encoded
                    servers={SERVER: request.access, **tools},
                    private=Path(private),
                    model=self._model,
                    has_folder=bool(allowance.folder),
                    env=env,
                    web=allowance.web,
                    dollars=request.left.dollars,
                )
                reply = self._execute(request, inputs, self._spec(inputs, program, allowance.folder), stop_request)
        except (ServerUnreachable, OpeningStopped) as error:
            return AgentReply(error=str(error))
        except OSError as error:  # no space for the folder, or no process can be started
            log.warning("agents.%s: %s cannot be started: %s", self._name, self._program, error)
            return AgentReply(
                error=f"{self._program} cannot be started here: {(error.strerror or 'no reason given').lower()}"
            )
        return reply if gateway is None else replace(reply, denied=[*reply.denied, *gateway.denied])

    def missing(self) -> str | None:
        program = shutil.which(self._command[0], path=self._visible(self._allowance).get("PATH", ""))
        return self._missing(self._allowance, program, LOCAL)

    def _visible(self, allowance: Allowance) -> dict[str, str]:
        return visible(self._environment, (*allowance.env, *(self._preset.env if self._preset else ())))

    def _missing(self, allowance: Allowance, program: str | None, owner: str) -> str | None:
        """Return which part of the settings cannot be found here. Its path is only for the local owner and the log."""
        if allowance.folder and not os.access(allowance.folder, os.R_OK | os.X_OK):
            problem = f"agents.{self._name} cannot work: its folder {allowance.folder} does not exist or cannot be read"
        elif program is None:
            problem = f"there is no program {self._command[0]}; install it, or change `command` of agents.{self._name}"
        else:
            return None
        if owner == LOCAL:
            return problem
        log.warning("agents.%s: %s", self._name, problem)
        return f"the agent {self._name} {CANNOT_START}"

    def close(self) -> None:
        """Stop all runs: each notices within a tick and ends its program."""
        self._closed = True

    def _permanent_problem(self, request: AgentRequest) -> str | None:
        """Return the reason why the prompt cannot be given to the program, if a retry could not succeed."""
        if self._as_argument and "\0" in request.text:
            return f'the prompt holds a NUL, which no argument can; set prompt = "{STDIN}" for agents.{self._name}'
        if self._as_argument and (size := len(request.text.encode(errors="replace"))) > _LONGEST_ARGUMENT:
            return (
                f"the prompt is too long for an argument ({size} bytes, at most {_LONGEST_ARGUMENT});"
                f' set prompt = "{STDIN}" for agents.{self._name}'
            )
        return None

    def _execute(
        self,
        request: AgentRequest,
        inputs: PresetInput,
        spec: ProcessSpec,
        stop_request: Callable[[], StopRequest | None],
    ) -> AgentReply:
        tokens = {f"{name}_token": access.token for name, access in inputs.servers.items()}
        secrets = Secrets(request.access.token, inputs.env, request.access.env, tokens)
        reader: Reader = EventReader(self._preset.read) if self._preset else AnswerReader()
        stderr = OutputBuffer()
        outputs = [LoggedOutput(reader.take, secrets), LoggedOutput(stderr.add, secrets)]
        spec = spec._replace(stdout=outputs[0].take, stderr=outputs[1].take)
        process = GuardedCommand(spec, ChildLease(request.lease, self._limits.patience), str(inputs.private))
        reported = _clock.monotonic()

        def report() -> bool:
            """Report what is new, if it is time; return False, because the run continues."""
            nonlocal reported
            now, progress = _clock.monotonic(), reader.transcript.progress
            if now - reported >= _REPORTS and progress is not None:
                reported = now
                request.report(secrets.without(progress))
                reader.transcript.progress = None
            return False

        try:
            why = process.watch(stop_request, report)
        finally:
            process.close()
        if why is None and process.expired:  # ended by its deadline, which is not its own fault
            request.stop.set(StopReason.LEASE)
            why = STOPPED[StopReason.LEASE]
        for each in outputs:
            each.finish()
        reader.finish()
        return reply_of(self._program, reader.transcript, process.exit_status, why, stderr.text().strip(), secrets)

    def _stop_request(self, request: AgentRequest, passed: float) -> StopRequest | None:
        grace = self._limits.grace
        match request.stop.reason:
            case StopReason.LEASE as reason:
                return StopRequest(STOPPED[reason])  # another worker may have the run by now
            case StopReason.SHUTDOWN as reason:
                return StopRequest(STOPPED[reason], min(_HURRIED, grace))
            case StopReason.CANCELLED as reason:
                return StopRequest(STOPPED[reason], grace)
            case None if self._closed:
                return StopRequest(STOPPED[StopReason.SHUTDOWN], grace)
            case None if passed < request.patience:
                return None
            case _:
                return StopRequest(f"timed out after {request.patience:g} s", grace)

    def _spec(self, inputs: PresetInput, program: str, folder: str) -> ProcessSpec:
        invocation = self._invocation(inputs) if self._preset is None else self._preset.prepare(inputs)
        work, scratch = inputs.private / "work", inputs.private / "tmp"
        work.mkdir()
        scratch.mkdir()  # programs leave error reports there, including the prompt
        return ProcessSpec(
            (*self._command_for(program, inputs.private), *invocation.flags),
            invocation.stdin.encode(),
            env={**inputs.env, "TMPDIR": str(scratch), **invocation.env},
            folder=folder or str(work),
        )

    def _invocation(self, inputs: PresetInput) -> Invocation:
        """Return how a program without a preset is started."""
        own = {"DUETIME_MCP_CONFIG": write_private(inputs.private / MCP_CONFIG, standard_config(inputs.servers))}
        return Invocation(("--", inputs.text), "", own) if self._as_argument else Invocation((), inputs.text, own)

    def _command_for(self, program: str, private: Path) -> tuple[str, ...]:
        """Return the command; only the operator's own arguments have placeholders. The program is looked up from the
        worker's folder, because somebody else may have put a program of the same name into the folder where it
        works."""
        config = str(private / MCP_CONFIG)
        words = (word.replace("{mcp_config}", config).replace("{model}", self._model) for word in self._command[1:])
        return (str(Path(program).absolute()), *words)
