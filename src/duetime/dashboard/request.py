"""One request of a browser: its caller and time zone, its form, and the rendering of pages and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from duetime.dashboard.flash import notice_of
from duetime.dashboard.templates import render
from duetime.engine.clock import Instant
from duetime.engine.encoding import clean_text
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.engine.result import Err
from duetime.engine.scheduler import Scheduler
from duetime.engine.times.zones import known_zone
from duetime.http.browser_sessions import SESSION, Browsers
from duetime.rest.dependencies import ApiContext
from duetime.rest.errors import Refused, answer_of, refuse
from duetime.service.services import Call

ZONE_COOKIE = "duetime_zone"
FIELD = "csrf"
"""The form field that holds the CSRF token."""
BACK = "back"
"""The form field that holds the filters and the page of the list that a change returns to."""
MOST_FIELDS = 2000
LONGEST_PARAMETER = 500
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class PageRequest:
    request: Request
    house: ApiContext
    browsers: Browsers
    call: Call

    @property
    def scheduler(self) -> Scheduler:
        return self.call.scheduler

    @property
    def caller(self) -> Caller:
        return self.call.caller

    @property
    def operates(self) -> bool:
        """Whether workers are shown as well."""
        return self.caller.operator or self.house.trusting

    @cached_property
    def now(self) -> Instant:
        return self.scheduler.clock.now()

    @cached_property
    def zone(self) -> str:
        """The browser's time zone, once a script has set the cookie."""
        try:
            return known_zone(self.request.cookies[ZONE_COOKIE]).key
        except (KeyError, DuetimeError):
            return self.call.zone

    @property
    def session(self) -> str | None:
        """The session id; None if a program authenticated with a token."""
        session: str | None = self.request.scope.get(SESSION)
        return session

    def asked(self, name: str) -> str:
        """Return a query parameter, cleaned so that any store can search for it; empty if absent."""
        return clean_text(self.request.query_params.get(name, "")[:LONGEST_PARAMETER]).strip()

    def place(self, *names: str) -> str:
        """Encode these query parameters for a form, so that it leads back to the same list."""
        return urlencode({name: self.asked(name) for name in names if self.asked(name)})

    def page(self, template: str, status: int = 200, *, alarms: Sequence[str] | None = None, **values: Any) -> Response:
        """Render a page. `alarms` are by default the warnings of the services, which read the store for them."""
        shared = {
            "now": self.now,
            "zone": self.zone,
            "path": self.request.url.path,
            "reloads": self.request.method == "GET",
            "operator": self.caller.operator,
            "operates": self.operates,
            "owner": self.caller.owner,
            "signed_in": self.browsers.sessions is not None,
            "proof": self.browsers.proofs.of(self.session or ""),
            "notice": notice_of(self.request),
            "alarms": [each.text for each in self.call.services.worker_warnings()] if alarms is None else alarms,
        }
        return render(self.request.scope, template, status, **{**shared, **values})

    def go(self, path: str, **parameters: object) -> Response:
        """Redirect after a change, so that reloading the page does not repeat it."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        return RedirectResponse(path + query, 303, {"Cache-Control": "no-store"})


class Form:
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def one(self, name: str) -> str:
        return next((value for field, value in self._pairs if field == name), "")

    def all(self, name: str) -> list[str]:
        return [value for field, value in self._pairs if field == name]

    def back(self, *names: str) -> dict[str, str]:
        """Return the parameters of the list that the form was sent from, as far as their names are known."""
        try:
            pairs = parse_qsl(self.one(BACK), max_num_fields=len(names))
        except ValueError:
            return {}
        return {name: value[:LONGEST_PARAMETER] for name, value in pairs if name in names}


Show = Callable[[PageRequest], Response]
Act = Callable[[PageRequest, Form], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class Pages:
    """Makes endpoints of synchronous functions, which run in a thread pool."""

    def __init__(self, house: ApiContext, browsers: Browsers) -> None:
        self._house, self._browsers = house, browsers

    def show(self, view: Show) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return await run_in_threadpool(answered, view, self._visit(request))

        return endpoint

    def act(self, action: Act) -> Endpoint:
        """Make an endpoint for a change. All changes go through here, so none is made without a valid CSRF token."""

        async def endpoint(request: Request) -> Response:
            visit = self._visit(request)
            form = form_of(request.headers.get("content-type", ""), await request.body())
            return await run_in_threadpool(answered, lambda visit: self._acted(visit, form, action), visit)

        return endpoint

    def _acted(self, visit: PageRequest, form: Form | None, action: Act) -> Response:
        if form is None:
            raise refuse("not_json", "a form was expected here")
        if visit.session is None or not self._browsers.proofs.fits(visit.session, form.one(FIELD)):
            raise refuse("foreign", "this form is out of date or came from another site; go back, reload and try again")
        return action(visit, form)

    def _visit(self, request: Request) -> PageRequest:
        return PageRequest(request, self._house, self._browsers, self._house.identify())


def form_of(content_type: str, body: bytes) -> Form | None:
    if content_type.partition(";")[0].strip().lower() != FORM:
        return None
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return None
    return Form([(name, value.replace("\r\n", "\n")) for name, value in pairs])


def answered(view: Show, visit: PageRequest) -> Response:
    try:
        return view(visit)
    except Refused as refused:
        return refusal_page(visit, refused.err)
    except DuetimeError as error:
        return refusal_page(visit, Err(error.code, error.message))


_STATUSES = {"foreign": 403}
_AWAY = "The store cannot be reached just now; try again in a moment."


def refusal_page(visit: PageRequest, err: Err) -> Response:
    """Render an error with the status of the API. An unreachable store is not asked for live workers either."""
    status = _STATUSES.get(err.code) or answer_of(err).status_code
    away = status == 503
    return visit.page("refusal.html", status, alarms=[] if away else None, words=_AWAY if away else err.message)


def at(public_id: str, *more: str) -> str:
    """Return the path of a schedule's page."""
    return "/".join(["/schedules", quote(public_id, safe=""), *more])
