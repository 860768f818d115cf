"""The pages in the navigation and in the menu, with their icons, shortcuts and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from duetime.service.operations.dead_letters import count_dead
from duetime.service.services import Call
from duetime.service.text import Count


class NavigationItem(NamedTuple):
    path: str
    label: str
    icon: str = "page"
    key: str = ""
    """The letter that opens it after `g`."""
    tally: Callable[[Call], Count] | None = None
    """The number on its badge; there is no badge if it is 0."""
    counted: str = ""
    """What the badge counts, such as "unread messages"."""
    grave: bool = False
    badge: str = ""


BEFORE_KINDS: Final = (
    NavigationItem("/", "Now", "now", "n"),
    NavigationItem("/timeline", "Timeline", "timeline", "t"),
    NavigationItem("/schedules", "Schedules", "schedules", "s"),
    NavigationItem("/runs", "Runs", "runs", "r"),
)
AFTER_KINDS: Final = (
    NavigationItem("/dead-letters", "Dead letters", "dead", "d", count_dead, "failed runs to deal with", grave=True),
)
MENU: Final = (
    NavigationItem("/connect", "Connect an agent", "agent", "a"),
    NavigationItem("/settings", "Settings and health", "settings", "e"),
    NavigationItem("/help", "Help and shortcuts", "help", "h"),
)
"""Pages that are needed rarely."""
SHORTCUTS: Final = (
    ("Ctrl K", "Open the command palette: actions, schedules, runs, pages"),
    ("/", "Filter the list, or open the palette if there is none"),
    ("c", "Create a schedule"),
    ("e", "Edit the schedule that is shown"),
    ("z", "Undo the last change"),
    ("j", "Next row"),
    ("k", "Previous row"),
    ("x", "Select the row, in lists whose rows have a box"),
    ("o", "Open the row"),
    ("r", "Apply the changes that wait because rows stay in place"),
    ("Esc", "Close what is open"),
    ("?", "Show these shortcuts"),
)


def with_counts(items: Sequence[NavigationItem], call: Call | None) -> list[NavigationItem]:
    """Return the items with their badges; without a call, which means that the store cannot be queried, without
    badges."""
    return [
        each if call is None or each.tally is None else each._replace(badge=_badge(each.tally(call))) for each in items
    ]


def _badge(count: Count) -> str:
    return str(count) if count.number else ""


def shortcuts(items: Sequence[NavigationItem]) -> list[tuple[str, str]]:
    return [*SHORTCUTS, *((f"g {each.key}", f"Go to {each.label}") for each in items if each.key)]
