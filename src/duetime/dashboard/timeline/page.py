"""The timeline page: past and future on one axis, as bars for all schedules and a strip for each of the busiest."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from starlette.responses import Response

from duetime.dashboard.filters import in_order, kind_class, plural_of
from duetime.dashboard.queries import ReadLimits, occurrences_in
from duetime.dashboard.request import PageRequest
from duetime.dashboard.timeline.axis import USUAL, ZOOMS, Window, Zoom, window
from duetime.dashboard.timeline.charts import chart, status_class, strip
from duetime.engine.clock import SECOND, Instant
from duetime.engine.times.wall_clock import LAST_SECOND
from duetime.service.presenters import instant_view
from duetime.service.text import whole_number

HEIGHT: Final = 150
ROWS: Final = 24
_NAMES = list(ZOOMS)
_SHADES: Final = (
    ("completed", ("completed",)),
    ("under way", ("running", "pending", "queued")),
    ("waiting for an agent", ("waiting",)),
    ("missed", ("missed",)),
    ("failed or lost", ("failed", "lost")),
    ("skipped or cancelled", ("skipped", "cancelled")),
)
"""Meaning of each colour, and the statuses that share it."""


class Shade(NamedTuple):
    """An entry of the legend."""

    style: str
    label: str
    number: int
    ahead: bool = False


def timeline_page(request: PageRequest) -> Response:
    zoom = ZOOMS.get(request.parameter("span"), ZOOMS[USUAL])
    view = window(zoom, request.zone, request.now, _start(request))
    owner = request.parameter("owner") or None
    seen = occurrences_in(request, view, ReadLimits(), owner)
    density = seen.density
    rows = density.busiest(ROWS)
    drawn = chart(density, HEIGHT, request.now)
    ahead_bars = [bar for bar in drawn.bars if bar.start >= request.now]
    ahead, before = density.totals()
    return request.render(
        "timeline.html",
        zoom=zoom,
        zooms=ZOOMS.values(),
        view=view,
        chart=drawn,
        legend=_legend(sum(ahead, Counter()), sum(before, Counter())),
        days=view.days(request.now),
        rows=[(row, strip(row, view, request.now)) for row in rows],
        left=len(density.rows) - len(rows),
        number=sum(each.total() for each in ahead),
        number_past=sum(each.total() for each in before),
        about=density.about,
        busiest=max(ahead_bars or drawn.bars, key=lambda bar: bar.total, default=None),
        more_schedules=seen.more_schedules,
        past_from=instant_view(seen.past_from, request.zone),
        here=view.place(request.now),
        starts=_starts(view),
        moved=_start(request) is not None,
        inner=_finer(zoom),
        asked_owner=owner or "",
        zoomed=lambda bar: (bar.start + (zoom.step - _whole(_finer(zoom))) // 2) // SECOND,
    )


def _legend(ahead: Counter[str], before: Counter[str]) -> list[Shade]:
    """Return legend entries for what is present."""
    entries = [Shade(status_class(names[0]), label, sum(before[name] for name in names)) for label, names in _SHADES]
    entries += [Shade(kind_class(kind), f"{plural_of(kind)} ahead", ahead[kind], True) for kind in in_order(ahead)]
    return [entry for entry in entries if entry.number]


def _start(request: PageRequest) -> Instant | None:
    """Parse `from` as whole seconds since 1970; anything else means now."""
    seconds = whole_number(request.parameter("from"), 12)
    return None if seconds is None else Instant(min(seconds, LAST_SECOND - 40 * 86_400) * SECOND)


def _starts(view: Window) -> dict[str, int]:
    """Return the starts of the adjacent windows, and of the other zooms around the same middle."""
    middle = (view.start + view.end) // 2
    moved = {"earlier": view.moved(-view.zoom.ahead), "later": view.moved(view.zoom.ahead)}
    around = {zoom.name: Instant(max(0, middle - _whole(zoom) // 2)) for zoom in ZOOMS.values()}
    return {name: start // SECOND for name, start in (moved | around).items()}


def _whole(zoom: Zoom) -> int:
    return zoom.ahead + zoom.behind


def _finer(zoom: Zoom) -> Zoom:
    return ZOOMS[_NAMES[max(0, _NAMES.index(zoom.name) - 1)]]
