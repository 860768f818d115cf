"""A site for all tests of a module, and the command line on its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.web import Site, site


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def on_site(cli: Cli, there: Site, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on the store of the site."""
    monkeypatch.chdir(Path(there.room.settings.db).parent)
    return lambda *arguments: cli(*arguments, *(() if arguments[0] == "next" else ("--db", there.room.settings.db)))
