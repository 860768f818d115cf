"""The reference says what the code says: a page that is out of date fails, with what to do."""

from __future__ import annotations

import pytest

from reference.pages import FOLDER, PAGES
from reference.python import undescribed as undescribed_python
from reference.setting import undescribed


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    kept = FOLDER / name
    assert kept.exists(), f"there is no docs/reference/{name}; run make reference"
    assert kept.read_text(encoding="utf-8") == PAGES[name](), f"docs/reference/{name} is stale; run make reference"


def test_there_is_no_other_page() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.md")) == sorted(PAGES), "the reference is made, not written"


def test_every_setting_says_what_it_means() -> None:
    assert undescribed() == []


@pytest.mark.later
def test_every_method_option_and_result_of_the_python_api_is_described() -> None:
    assert undescribed_python() == []
