"""`worker` and `serve` wait for a PostgreSQL that cannot be reached when they start, say so once, and then go on."""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from duetime.cli.serve import worker
from duetime.engine.errors import StoreUnavailable
from duetime.settings import Settings
from tests.support.cli import Output, start
from tests.support.postgres import PostgresServer

COMMANDS = (("worker",), ("serve", "--port", "0"))
AWAY = "warning: PostgreSQL cannot be reached; work continues when it is back"
PATIENCE = 30.0


def test_each_problem_is_named_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    problems = ["PostgreSQL refuses the connection (starting up); work continues when it is back", *["It is away"] * 2]

    def build_store(settings: Settings) -> object:
        if problems:
            raise StoreUnavailable(problems.pop())
        return settings

    monkeypatch.setattr(worker, "build", build_store)
    settings = Settings()
    app: object = worker.build_when_reachable(settings, wait=True)
    assert app is settings
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "It is away. Waiting for it" in lines[0] and "starting up" in lines[1]
    worker.build_when_reachable(settings, wait=True)
    assert capsys.readouterr().err == "", "a store that is there needs no word"


class Waiting:
    """A process whose store is away: what it prints, and what it warns of."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.output = process, Output(process)
        self.warnings: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.warnings.put(line.rstrip("\n"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.output.rest()
        assert self.process.wait(PATIENCE) == 0


@contextmanager
def started(*arguments: str, folder: Path) -> Iterator[Waiting]:
    folder.mkdir()
    with start(*arguments, folder=folder) as process:
        try:
            yield Waiting(process)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.later
@pytest.mark.process
@pytest.mark.postgres
def test_both_wait_for_postgresql_say_so_once_and_go_on_when_it_is_there(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    private_postgres.stop()
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(started(*command, "--db", private_postgres.url, folder=tmp_path / command[0]))
            for command in COMMANDS
        ]
        for each in waiting:
            assert (
                each.warnings.get(timeout=PATIENCE)
                == f"{AWAY}. Waiting for it; with --no-wait, this command fails instead."
            )
        for command in COMMANDS:
            with start(*command, "--no-wait", "--db", private_postgres.url, folder=tmp_path) as process:
                _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 5 and "PostgreSQL cannot be reached" in err and "Waiting" not in err
        for each in waiting:
            with pytest.raises(subprocess.TimeoutExpired):
                each.process.wait(0.1)  # by now, each has tried several times
        private_postgres.start()
        for each in waiting:
            each.output.until(lambda line: "Duetime " in line and ", worker " in line)
            each.stop()
            repeated = [each.warnings.get_nowait() for _ in range(each.warnings.qsize())]
            assert not [line for line in repeated if AWAY in line], "each problem is named once"
