"""`duetime chat` as a separate process, with input and output while it answers."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from duetime.kinds.prompts.agents.models import EXAMPLE
from tests.support.cli import Answer, environment

PATIENCE = 90.0
"""Seconds to wait for output: on a busy machine, the libraries of the models alone take half a minute to load."""


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    own = {"XDG_DATA_HOME": str(folder / "data"), "DUETIME_MODEL": EXAMPLE, "DUETIME_TIMEZONE": "Europe/Berlin"}
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"))
    usual = {name: value for name, value in environment().items() if name not in keys}
    return usual | own | dict(more)


def chat(folder: Path, *arguments: str, env: Mapping[str, str], said: str = "") -> Answer:
    """Run a whole conversation, from the first question to the last answer."""
    done = subprocess.run(
        [sys.executable, "-m", "duetime", "chat", "--db", "my.db", *arguments],
        cwd=folder,
        env=_environment(folder, env),
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


class Chatting:
    """Reads byte by byte, because streamed output does not wait for the end of its line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = ""
        self._bytes: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while piece := self.process.stdout.read(1):
            self._bytes.put(piece)
        self._bytes.put(b"")

    def until(self, wanted: str) -> str:
        """Return everything that has arrived since the last call, up to the wanted text."""
        read = ""
        while wanted not in read:
            piece = self._bytes.get(timeout=PATIENCE)
            assert piece, f"it ended without {wanted!r}: {self.seen}{read}"
            read += piece.decode("utf-8", "replace")
        self.seen += read
        return read

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def leave(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


@contextmanager
def chatting(folder: Path, *arguments: str, env: Mapping[str, str]) -> Iterator[Chatting]:
    """Start the chat as in the background of a script, where SIGINT is ignored: Ctrl-C has to work anyway."""
    command = [sys.executable, "-m", "duetime", "chat", "--db", "my.db", *arguments]
    with subprocess.Popen(
        ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command],
        cwd=folder,
        env=_environment(folder, env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            yield Chatting(process)
        finally:
            if process.poll() is None:
                process.kill()
