"""Commands of `duetime` one after the other in one process, which saves the second that each takes to start.

`python -m scorecard.commands` reads a list of arguments from each line, and answers each with a line."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from duetime.cli.main import main
from scorecard.serving import ROOT, Done, Server, environment


class Commands(Protocol):
    """Runs a command and returns what it said."""

    def __call__(self, *arguments: str) -> Done: ...


@contextmanager
def commands_of(server: Server) -> Iterator[Commands]:
    """Run commands with the settings, the secret and the folder of a server."""
    env = environment(server.folder) | {"DUETIME_SECRET": server.secret}
    env["PYTHONPATH"] += f":{ROOT}"
    command = [sys.executable, "-m", "scorecard.commands"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=server.folder, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        yield lambda *arguments: _asked(process, arguments)


def _asked(process: subprocess.Popen[str], arguments: tuple[str, ...]) -> Done:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(arguments) + "\n")
    process.stdin.flush()
    return Done(*json.loads(process.stdout.readline()))


def _run(arguments: list[str]) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 1
    return Done(code, out.getvalue(), err.getvalue())


if __name__ == "__main__":
    _run(["job", "list", "--help"])  # imports what most commands need while nobody waits for it
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)
