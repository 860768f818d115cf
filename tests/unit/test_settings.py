"""Where settings come from, and which source wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from duetime.core.errors import InvalidInput
from duetime.settings import load_settings


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
    [("threads = [", "not valid TOML"), ("colour = 1", "unknown setting 'colour'"), ("threads = true", "threads")],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=said) as refused:
        load_settings(environment={}, folder=tmp_path)
    assert "duetime.toml" in str(refused.value)


def test_a_bad_value_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the environment: threads must be a int"):
        load_settings(environment={"DUETIME_THREADS": "many"}, folder=tmp_path)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        load_settings(environment={"DUETIME_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("text", ["retention_days = -1", "retention_days = 0.5", "threads = 0", "lease = 0"])
def test_a_value_that_would_do_harm_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "duetime.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="at least 1"):
        load_settings(environment={}, folder=tmp_path)
