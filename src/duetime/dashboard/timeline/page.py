"""The timeline page: past and future on one axis, as bars for all schedules and one lane for each of a selection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.filters import in_order, kind_class, plural_of
from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import USUAL, ZOOMS, days, ticks
from duetime.dashboard.timeline.charts import Bar, chart, status_class, strip
from duetime.engine.clock import SECOND, Instant
from duetime.service.density import BY_NEED, Density
from duetime.service.operations.overview import Occurrences, occurrences
from duetime.service.presenters import instant_view
from duetime.service.text import plural, whole_number
from duetime.service.window import Window, Zoom, start_at, window

HEIGHT: Final = 150
ROWS: Final = 24
LIMITS: Final[Mapping[str, Any]] = {"max_schedules": 500, "max_runs": 1_500}
"""Beyond these, only the schedules that fire first and the latest runs are shown."""
_FINER: Final = {"1h": "1h", "6h": "1h", "24h": "6h", "7d": "24h", "week": "24h"}
_SHADES: Final = (
    ("completed", ("completed",)),
    ("running", ("running", "pending", "queued")),
    ("waiting", ("waiting",)),
    ("missed", ("missed",)),
    ("failed or lost", ("failed", "lost")),
    ("skipped or cancelled", ("skipped", "cancelled")),
)
"""Meaning of each colour, and the statuses that share it."""
STATUSES: Final = {
    "failed": ("failed", "lost"),
    "missed": ("missed",),
    "skipped": ("skipped", "cancelled"),
    "waiting": ("waiting",),
    "completed": ("completed",),
}
"""Outcomes that the lanes can be restricted to."""
SORTS: Final = {
    BY_NEED: "Failing first",
    "failures": "Most failures",
    "next": "Next due",
    "name": "Name",
    "busy": "Busiest",
}
FILTERS: Final = ("kind", "status", "text", "owner", "sort")


class Shade(NamedTuple):
    """An entry of the legend."""

    style: str
    label: str
    number: int
    about: bool = False
    """Whether the number is an estimate."""


class Place:
    """The addresses of other parts of the timeline, with the same filters."""

    def __init__(self, zoom: Zoom, filters: dict[str, str]) -> None:
        self._zoom, self._filters = zoom, filters

    def at(self, span: str, start: int | None = None) -> str:
        begin = {} if start is None else {"from": str(start)}
        return "/timeline?" + urlencode({"span": span, **self._filters, **begin})

    def bars(self) -> str:
        """Return the prefix of the address to which a bar links; the start of the bar completes it."""
        return self.at(_FINER[self._zoom.name]) + "&from="

    def start_of(self, bar: Bar) -> int:
        inner = ZOOMS[_FINER[self._zoom.name]]
        return int(max(0, bar.start + (self._zoom.step - _whole(inner)) // 2) // SECOND)


def timeline_page(request: PageRequest) -> Response:
    zoom = ZOOMS.get(request.parameter("span"), ZOOMS[USUAL])
    start = _start(request)
    view = window(zoom, request.zone, request.now, start)
    parameters = {name: request.parameter(name) for name in FILTERS}
    filters: dict[str, Any] = {name: parameters[name] or None for name in ("owner", "kind", "text")}
    seen = occurrences(request.call, Occurrences(window=view, now=request.now, **LIMITS, **filters)).value
    density = _restricted(seen.density, parameters["status"])
    lanes = density.sorted(parameters["sort"])
    drawn = chart(density, HEIGHT, request.now)
    ahead = [bar for bar in drawn.bars if bar.start >= request.now]
    return request.render(
        "timeline.html",
        zoom=zoom,
        zooms=ZOOMS.values(),
        view=view,
        chart=drawn,
        days=days(view, request.now),
        ticks=ticks(view),
        rows=[(row, strip(row, view, request.now)) for row in lanes[:ROWS]],
        left=max(0, len(lanes) - ROWS),
        more_schedules=seen.more_schedules,
        most_schedules=LIMITS["max_schedules"],
        past_from=instant_view(seen.past_from, request.zone),
        here=view.place(request.now),
        starts=_starts(view),
        moved=start is not None,
        place=Place(zoom, {name: value for name, value in parameters.items() if value}),
        parameters=parameters,
        kinds=list(request.call.services.specs),
        statuses=list(STATUSES),
        sorts=SORTS,
        lead=_lead(density, request.now, filtered=any(parameters[name] for name in FILTERS if name != "sort")),
        legend=_legend(density),
        busiest=max(ahead or drawn.bars, key=lambda bar: bar.total, default=None),
    )


def _restricted(density: Density, status: str) -> Density:
    """Return only the schedules that have an outcome, if one was asked for."""
    if status not in STATUSES:
        return density
    rows = {id: row for id, row in density.rows.items() if row.outcomes(*STATUSES[status])}
    return Density(density.window, rows)


def _lead(density: Density, now: Instant, *, filtered: bool) -> str:
    """Return a sentence that says how much is due in the window and how much ran in it."""
    due, done = (sum(each.total() for each in bins) for bins in density.totals)
    if not due and not done and filtered:
        return "Nothing matches the filter."
    if density.window.ends_with(now):
        return f"{plural(done, 'run')}." if done else "No runs in this time."
    ahead = f"{'About ' if density.about else ''}{plural(due, 'occurrence')} ahead" if due else "Nothing ahead"
    return f"{ahead}, {plural(done, 'run')} so far." if done else f"{ahead}."


def _legend(density: Density) -> list[Shade]:
    """Return legend entries for what is present."""
    ahead, before = (sum(bins, Counter[str]()) for bins in density.totals)
    entries = [Shade(status_class(names[0]), label, sum(before[name] for name in names)) for label, names in _SHADES]
    entries += [
        Shade(f"{kind_class(kind)} ahead", f"{plural_of(kind)} due", ahead[kind], kind in density.about)
        for kind in in_order(ahead)
    ]
    return [entry for entry in entries if entry.number]


def _start(request: PageRequest) -> Instant | None:
    """Parse `from` as whole seconds since 1970; anything else means now."""
    seconds = whole_number(request.parameter("from"), 12)
    return None if seconds is None else start_at(seconds)


def _starts(view: Window) -> dict[str, int]:
    """Return the starts of the adjacent windows, and of the other zooms around the same middle."""
    middle, step = (view.start + view.end) // 2, max(view.zoom.ahead, view.zoom.behind)
    moved = {"earlier": view.moved(-step), "later": view.moved(step)}
    around = {zoom.name: Instant(max(0, middle - _whole(zoom) // 2)) for zoom in ZOOMS.values()}
    return {name: start // SECOND for name, start in (moved | around).items()}


def _whole(zoom: Zoom) -> int:
    return zoom.ahead + zoom.behind
