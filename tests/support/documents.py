"""Play a document: the commands of its `sh` and `console` blocks are typed into one shell, and have to succeed.

In a `console` block, what is shown below a command has to come:

    $ duetime notify add "Water the plants" --topic reminders --delay 2s      typed as it stands
    Added msg_…  Water the plants: …                                          comes, with anything for each `…`
    $ duetime inbox                                                           asked again until it shows what is shown
    $ duetime serve &                                                         goes on until the document ends
    $ duetime worker
    …  completed  hello  …
    ^C                                                                        is interrupted here
    Stopped; everything is recorded.

Lines that are not shown may come in between. The shell stands in a scratch folder that looks like a fresh clone whose
set-up is done, with a data folder, a home and a port of its own. A block that begins with `# name.py` or `# name.toml`,
except for settings, is saved there under that name. A block is not run if `<!-- not run: REASON -->` stands above it.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from duetime.engine.clock import SystemClock
from tests.support.cli import ROOT, environment
from tests.support.ports import free_port

DOCUMENTS = {
    str(path.relative_to(ROOT)): path
    for path in (
        *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "README", "SECURITY", "examples/README")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}
"""Every document by its path from the root of the project."""
PATIENCE = 30.0
"""Seconds for what is shown to come."""
LOOK = 0.5
PORT = "8765"
_CLOCK = SystemClock()
_LOOKS = re.compile(r"duetime (inbox|doctor|\w+ (list|history|show|take))\b|curl -s ")
"""Commands that change nothing until they show something, so that they can be asked again."""
_INTERRUPT = "^C"
_NAMED = re.compile(r"# (\w+\.py|(?!duetime\.)\w+\.toml)\n")
_BLOCK = re.compile(r"^(?:<!-- not run: (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step(NamedTuple):
    command: str
    before: list[str]
    """Shown before the reader interrupts it, or at all."""
    after: list[str] | None
    """Shown after that; None where nobody interrupts."""


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    reason: str | None
    """Why it is not run; None if it is."""


def blocks_of(text: str) -> list[Block]:
    return [Block(language, block, reason or None) for reason, language, block in _BLOCK.findall(text)]


def steps_of(text: str) -> list[Step]:
    found: list[Step] = []
    for block in blocks_of(text):
        if block.language == "console" and block.reason is None:
            found += _shown(block.text)
        elif block.language == "sh" and block.reason is None:
            lines = block.text.replace("\\\n", "").splitlines()
            found += [Step(line, [], None) for line in lines if line.strip() and not line.startswith("#")]
    return found


def _shown(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, rest = part.replace("\\\n", "").partition("\n")
        lines = rest.splitlines()
        cut = lines.index(_INTERRUPT) if _INTERRUPT in lines else len(lines)
        yield Step(command, lines[:cut], lines[cut + 1 :] if cut < len(lines) else None)


def play(document: Path, folder: Path, meanwhile: Mapping[str, str]) -> None:
    """`meanwhile`: what is typed unseen after a command that holds a text, so that nothing leaves this machine."""
    port = str(free_port())
    text = document.read_text(encoding="utf-8").replace(PORT, port)
    for block in blocks_of(text):
        if name := _NAMED.match(block.text):
            (folder / name[1]).write_text(block.text, encoding="utf-8")
    with _shell(folder, port) as shell:
        for step in steps_of(text):
            shell.take(step)
            for holds, unseen in meanwhile.items():
                if holds in step.command:
                    shell.take(Step(unseen, [], None))


class Shell:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said: list[str] = []
        self._news = threading.Condition()
        self._marks = itertools.count(1)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._finished("set -m")  # each command that goes on is a job of its own, as at a terminal

    def take(self, step: Step) -> None:
        if step.after is not None:
            self._started(step, f"{step.command} &")
            said = self._finished('kill -INT -- "-$!"; wait "$!"')
            assert missing(step.after, said) is None, _complaint(step, missing(step.after, said), said)
        elif step.command.endswith("&"):
            self._started(step, step.command)
        else:
            self._run(step)

    def _started(self, step: Step, command: str) -> None:
        """Until it has shown what is shown; it goes on."""
        begin = len(self._said)
        self._type(command)
        with self._news:
            came = self._news.wait_for(lambda: missing(step.before, self._said[begin:]) is None, PATIENCE)
        assert came, _complaint(step, missing(step.before, self._said[begin:]), self._said[begin:])

    def _run(self, step: Step) -> None:
        deadline = _CLOCK.monotonic() + (PATIENCE if _LOOKS.match(step.command) else 0)
        pause = threading.Event()
        while True:
            said = self._finished(step.command)
            lacking = missing([*step.before, "[ended … with 0, job …]"], said)
            if lacking is None or _CLOCK.monotonic() > deadline:
                break
            pause.wait(LOOK)
        assert lacking is None, _complaint(step, lacking, said)

    def _finished(self, command: str) -> list[str]:
        """What was said until the command had ended."""
        begin = len(self._said)
        mark = f"[ended {self._type(command)} with …]"
        with self._news:
            assert self._news.wait_for(lambda: missing([mark], self._said[begin:]) is None, PATIENCE), command
        return self._said[begin:]

    def leave(self) -> None:
        """Whatever still goes on is ended first, by asking and then by force."""
        jobs, deadline = self._jobs(), _CLOCK.monotonic() + PATIENCE
        _signalled(jobs, signal.SIGTERM)
        while _signalled(jobs, 0) and _CLOCK.monotonic() < deadline:
            threading.Event().wait(LOOK / 5)
        _signalled(jobs, signal.SIGKILL)
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _jobs(self) -> list[int]:
        found = (re.fullmatch(r"\[ended .* job (\d+)\]", line) for line in self._said)
        return sorted({int(match[1]) for match in found if match is not None})

    def _type(self, command: str) -> int:
        assert self._process.stdin is not None
        mark = next(self._marks)
        # Nothing may be read from where the next commands come.
        self._process.stdin.write(f'{{ {command}\n}} </dev/null; printf "\\n[ended {mark} with $?, job $!]\\n"\n')
        self._process.stdin.flush()
        return mark

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._said.append(line.rstrip("\n"))
                self._news.notify_all()


def _signalled(jobs: list[int], number: int) -> bool:
    """Whether any of them was still there."""
    there = False
    for job in jobs:
        with suppress(ProcessLookupError):
            os.killpg(job, number)
            there = True
    return there


def missing(shown: list[str], said: list[str]) -> str | None:
    """The first line that did not come, in the order in which they are shown."""
    lines = iter(said)
    for line in filter(lambda line: line.strip(" …"), shown):
        pattern = re.compile(".*?".join(re.escape(part) for part in line.strip().split("…")))
        if not any(pattern.search(each) for each in lines):
            return line
    return None


def _complaint(step: Step, lacking: str | None, said: list[str]) -> str:
    return f"$ {step.command}\ndid not show {lacking!r}, but:\n" + "\n".join(said)


@contextmanager
def _shell(folder: Path, port: str) -> Iterator[Shell]:
    programs = _clone(folder)
    env = environment() | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "home" / ".config"),
        "XDG_DATA_HOME": str(folder / "home" / ".local" / "share"),
        "DUETIME_PORT": port,
    }
    process = subprocess.Popen(
        ["bash"],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    shell = Shell(process)
    try:
        yield shell
    finally:
        shell.leave()


def _clone(folder: Path) -> Path:
    """What `make` needs to find its set-up done; the program of it is the one under test."""
    for name in ("Makefile", "pyproject.toml", "requirements", "examples"):
        source, target = ROOT / name, folder / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    program = programs / "duetime"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m duetime "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for stamp in (".made", ".tools", ".run-packages", ".dev-packages", ".run", ".dev"):
        (folder / ".venv" / stamp).touch()
    (folder / "home").mkdir()
    return programs


# -- examples in Python ------------------------------------------------------------------------------------------------

SILENT_CHANNELS = {"refuses connections": False, "never answers": True}
"""Channels that cannot be used, and whether each accepts connections."""


def run_example(example: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run an example as a program of its own, in a folder."""
    (folder / "example.py").write_text(example, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", "example.py"], cwd=folder, capture_output=True, text=True, timeout=60,
        check=False, env={**os.environ, **variables},
    )  # fmt: skip


def run_with_silent_channel(
    example: str, folder: Path, *, accepts: bool, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run an example with settings that name a channel which never answers, or refuses connections. After so many
    seconds, one that never answers is gone."""
    with socket.create_server(("127.0.0.1", 0)) as channel:
        port = channel.getsockname()[1]
        end = threading.Timer(seconds if accepts else 0, channel.close)
        end.start()
        try:
            return run_example(example, folder, DUETIME_NOTIFICATIONS_SERVER=f"http://127.0.0.1:{port}")
        finally:
            end.cancel()
            end.join()
