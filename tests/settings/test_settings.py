"""Where settings come from, and which source wins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from duetime.engine.errors import InvalidInput
from duetime.settings import load_settings
from duetime.settings.loading import fit_settings


def test_later_sources_win(tmp_path: Path) -> None:
    (tmp_path / "duetime.toml").write_text('threads = 2\nlease = 5\ntasks = ["one"]\n', encoding="utf-8")
    environment = {"DUETIME_THREADS": "3", "DUETIME_TASKS": "two, three", "DUETIME_TEST_POSTGRES": "ignored"}
    settings = load_settings({"threads": 4, "db": None}, environment=environment, folder=tmp_path)
    assert (settings.threads, settings.lease, settings.tasks) == (4, 5.0, ("two", "three"))
    assert len(settings.sources) == 3


def test_without_sources_there_are_defaults(tmp_path: Path) -> None:
    settings = load_settings(environment={}, folder=tmp_path)
    assert (settings.threads, settings.sources) == (16, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [("threads = [", "not valid TOML"), ("colour = 1", "Unknown setting 'colour'"), ("threads = true", "threads")],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=said) as refused:
        load_settings(environment={}, folder=tmp_path)
    assert "duetime.toml" in str(refused.value)


def test_a_bad_value_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the environment: threads must be a whole number"):
        load_settings(environment={"DUETIME_THREADS": "many"}, folder=tmp_path)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        load_settings(environment={"DUETIME_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("text", ["retention_days = -1", "retention_days = 0.5", "threads = 0", "lease = 0"])
def test_a_value_that_would_do_harm_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="at least 1"):
        load_settings(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agents.a]\nruns_per_day = -1", r"agents\.a\.runs_per_day must be 0 or more"),
        ("[agents.a]\ntokens_per_day = -1", r"agents\.a\.tokens_per_day must be 0 or more"),
        ("[agents.a]\ndollars_per_day = -0.5", r"agents\.a\.dollars_per_day must be 0 or more"),
        ("[agents.a]\ndollars_per_day = inf", r"agents\.a\.dollars_per_day must be 0 or more"),
        ("[agents.a]\ntimeout = 0", r"agents\.a\.timeout must be more than 0 seconds"),
        ("[agents.a]\ntimeout = -5", r"agents\.a\.timeout must be more than 0 seconds"),
        ("[agents.a]\ntimeout = nan", r"agents\.a\.timeout must be more than 0 seconds"),
        ("[agents.a]\ntimeout = inf", r"agents\.a\.timeout must be more than 0 seconds and at most 31536000"),
        ('[agents.inbox]\npreset = "claude"', r"agents\.inbox: .* give an agent that is woken another name"),
        ('[agents.services]\ntype = "inbox"\npreset = "claude"', r"agents\.services\.preset: an inbox wakes no agent"),
        ('[agents.heartbeat]\ncommand = ["cat"]', r"agents\.heartbeat is the name of the heartbeat itself"),
        ("[heartbeat]\nruns_per_day = -1", r"heartbeat\.runs_per_day must be 0 or more"),
    ],
)
def test_what_no_agent_could_be_woken_with_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=rf"duetime\.toml: {said}"):
        load_settings(environment={}, folder=tmp_path)


def test_inboxes_and_agents_that_fit(tmp_path: Path) -> None:
    text = '[agents.inbox]\ntype = "inbox"\n[agents.a]\ncommand = ["cat"]\ntimeout = 0.5\nruns_per_day = 0\n'
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    assert load_settings(environment={}, folder=tmp_path).agents["a"].timeout == 0.5


def test_alerts_go_to_something_that_can_be_a_topic(tmp_path: Path) -> None:
    named = {"DUETIME_NOTIFICATIONS_ALERTS": "phone"}
    assert load_settings(environment={}, folder=tmp_path).notifications.alerts == ""
    assert load_settings(environment=named, folder=tmp_path).notifications.alerts == "phone"
    for wrong in (" ", "My Phone"):
        (tmp_path / "duetime.toml").write_text(f'[notifications]\nalerts = "{wrong}"', encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"duetime\.toml: notifications\.alerts must be the name of a channel"):
            load_settings(environment={}, folder=tmp_path)


@dataclass(frozen=True)
class Ports:
    allowed: tuple[int, ...] = (80,)
    names: tuple[str, ...] = ()


def test_the_items_of_a_list_have_its_type() -> None:
    settings = fit_settings(Ports(), {"allowed": [80, 443], "names": [1, "b"]}, "the file")
    assert settings == Ports((80, 443), ("1", "b"))
    assert fit_settings(Ports(), {"allowed": "80, 443"}, "the environment") == Ports((80, 443))
    with pytest.raises(InvalidInput, match="the file: allowed must be a whole number, not 'http'"):
        fit_settings(Ports(), {"allowed": ["http"]}, "the file")
