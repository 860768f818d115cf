"""The README shows one example per kind; each runs as a program of its own until its effect can be seen, and ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duetime.kinds import load_specs
from tests.support.documents import SILENT_CHANNELS, run_example, run_with_silent_channel

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
    done = run_example(example, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(effects), lines
    for line, effect in zip(lines, effects, strict=True):
        assert line == effect or re.fullmatch(effect, line), lines


@pytest.mark.later
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.socket
@pytest.mark.parametrize("channel", SILENT_CHANNELS)
def test_the_notification_of_the_readme_ends_whatever_the_channel_does(channel: str, tmp_path: Path) -> None:
    """The personal settings of a reader may name a channel that cannot be reached. Here, less time is spent on it than
    the README says; tests/e2e/test_documents.py takes all of it."""
    (example,) = [each for each in EXAMPLES if re.search(EFFECTS["notification"][0], each)]
    shortened = example.replace("wait(seconds=20)", "wait(seconds=2)")
    assert shortened != example
    done = run_with_silent_channel(shortened, tmp_path, accepts=SILENT_CHANNELS[channel], seconds=4)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
