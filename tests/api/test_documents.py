"""The README shows one example per kind; each runs as a program of its own until its effect can be seen, and ends."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.kinds import load_specs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
EFFECTS = {
    "job": (r"duetime\.schedule\(", ["Hello Ben"] * 3 + ["['BEN', 'BEN', 'BEN']"]),
    "prompt": (r"duetime\.prompt\(", ["Due: Name three birds", "robin, wren, heron"]),
    "notification": (r"duetime\.notify\(", [r"\d{4}-\S+ \d\d:\d\d:\S+ inbox Water the plants"]),
    "request": (r"duetime\.request\(", ["Received: tea is ready", "completed"]),
}


def test_every_kind_has_an_example() -> None:
    built_in = {spec.name for spec in load_specs().values() if spec.build.startswith("duetime.")}
    assert built_in == EFFECTS.keys()
    assert len(EXAMPLES) == len(EFFECTS)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("kind", EFFECTS)
def test_an_example_of_the_readme_shows_its_effect_and_ends(kind: str, tmp_path: Path) -> None:
    call, effects = EFFECTS[kind]
    (example,) = [each for each in EXAMPLES if re.search(call, each)]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(effects), lines
    for line, effect in zip(lines, effects, strict=True):
        assert line == effect or re.fullmatch(effect, line), lines


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.socket
@pytest.mark.parametrize("answers", [False, True], ids=["refuses connections", "never answers"])
def test_the_notification_of_the_readme_ends_whatever_the_channel_does(answers: bool, tmp_path: Path) -> None:
    """The personal settings of a reader may name a channel that cannot be reached."""
    (example,) = [each for each in EXAMPLES if re.search(EFFECTS["notification"][0], each)]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as channel:
        port = channel.getsockname()[1]
        if not answers:
            channel.close()
        environment = {**os.environ, "DUETIME_NOTIFICATIONS_SERVER": f"http://127.0.0.1:{port}"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
            check=False, env=environment,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
