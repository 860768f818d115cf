"""A request of a browser: its caller and time zone, its form, and the rendering of pages, notices and errors."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from duetime.dashboard import preferences
from duetime.dashboard.navigation import (
    AFTER_KINDS,
    BEFORE_KINDS,
    MENU,
    NavigationItem,
    with_counts,
)
from duetime.dashboard.notices import ONCE, SENTENCES, Notice, notice_of
from duetime.dashboard.templates import render
from duetime.dashboard.undo import UNDO, ReverseChange, reversal_of
from duetime.engine.clock import Instant
from duetime.engine.errors import DuetimeError
from duetime.engine.kind import Caller
from duetime.http.auth import WebContext
from duetime.http.bodies import alone
from duetime.http.browser_sessions import SESSION, Browsers, is_page
from duetime.service.distribution import documentation, version
from duetime.service.errors import STORE_ERRORS, STORE_MESSAGE, error_class, refuse
from duetime.service.kind_spec import load
from duetime.service.services import Call, Services
from duetime.service.text import clean_text, whole_number

CSRF_FIELD = "csrf"
LIST_FIELD = "back"
"""The form field that holds the filters and the page of the list that a change returns to."""
MOST_FIELDS = 2000
LONGEST_PARAMETER = 500
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class PageRequest:
    http: Request
    context: WebContext
    browsers: Browsers
    call: Call

    @property
    def caller(self) -> Caller:
        return self.call.caller

    @property
    def sees_workers(self) -> bool:
        """Return whether workers are shown as well."""
        return self.context.may_operate(self.call)

    def command(self, *words: str) -> str:
        """Return a command line that reaches this store; only who may see the machine is told where it is."""
        return shlex.join(["duetime", *words, *(self.context.commands.store if self.sees_workers else ())])

    @cached_property
    def now(self) -> Instant:
        return self.call.now

    @cached_property
    def zone_choice(self) -> str | None:
        """The time zone that the viewer has chosen, if any."""
        return preferences.zone_in(self.http.cookies, preferences.ZONE_COOKIE)

    @cached_property
    def browser_zone(self) -> str | None:
        """The time zone of the browser, once a script has set the cookie."""
        return preferences.zone_in(self.http.cookies, preferences.BROWSER_ZONE_COOKIE)

    @cached_property
    def zone(self) -> str:
        """The time zone in which the page shows times: the chosen one, else the browser's. What is typed is read in the
        zone of the call, as on every interface."""
        return self.zone_choice or self.browser_zone or self.call.zone

    @cached_property
    def reader(self) -> Call:
        """The call with the zone in which the page shows times, for reads."""
        return self.call._replace(zone=self.zone)

    @property
    def session(self) -> str:
        """The session id; empty if a program authenticated with a token."""
        return str(self.http.scope.get(SESSION, ""))

    def parameter(self, name: str) -> str:
        """Return a query parameter, cleaned so that any store can search for it; empty if absent."""
        return clean_text(self.http.query_params.get(name, "")[:LONGEST_PARAMETER]).strip()

    def render(
        self, template: str, status: int = 200, *, alarms: Sequence[str] | None = None, **values: Any
    ) -> Response:
        """Render a page. `alarms` are by default the warnings of the services, which read the store for them."""
        store_answers = alarms is None
        shared = {
            "now": self.now,
            "zone": self.zone,
            "typed_zone": self.call.zone,
            "zone_choice": self.zone_choice,
            "zone_choices": preferences.zone_choices(self.call.zone, self.zone_choice),
            "path": self.http.url.path,
            "here_again": self.here_again,
            "navigation": with_counts(self.navigation, self.call if store_answers else None),
            "menu": MENU,
            "release": version(),
            "documentation": documentation(),
            "reloads": self.http.method == "GET",
            "operator": self.caller.operator,
            "sees_workers": self.sees_workers,
            "owner": self.caller.owner,
            "signed_in": self.browsers.sessions is not None,
            "proof": self.browsers.proofs.of(self.session),
            "notice": self._with_undo(notice_of(self.http, self.session)),
            "alarms": [each.text for each in self.call.services.worker_warnings()] if alarms is None else alarms,
        }
        return render(self.http.scope, template, status, **{**shared, **values})

    @property
    def navigation(self) -> list[NavigationItem]:
        return [*BEFORE_KINDS, *(page.item for page in kind_pages(self.call.services)), *AFTER_KINDS]

    @property
    def here_again(self) -> str:
        """The address of this page without the notice about the last change, for forms that lead back to it."""
        if self.http.method != "GET":
            return "/"
        query = urlencode([pair for pair in self.http.query_params.multi_items() if pair[0] not in ONCE])
        return page_address(self.http.url.path, query)

    def _with_undo(self, notice: Notice | None) -> Notice | None:
        """Return a notice about the last change, with what reverses that change if it can still be reversed."""
        key = self.http.query_params.get("undo", "")
        reversal = UNDO.find(self.session, key)
        return notice if notice is None or reversal is None or reversal.until <= self.now else notice._replace(undo=key)

    def offer_undo(self, *changes: tuple[str, ReverseChange | None]) -> dict[str, str]:
        """Return the parameter for `redirect` that lets the viewer undo a change of schedules or runs, if it can be:
        each one's id with what reverses its change."""
        reversal = reversal_of(changes, self.now)
        return {} if reversal is None else {"undo": UNDO.keep(self.session, reversal)}

    def outcome(self, done: str, number: int, failed: int, reasons: Sequence[str]) -> dict[str, str]:
        """Return the parameters for `redirect` that describe a change of many, with why some of them were refused."""
        parameters = {"did": done, "number": str(number)}
        if failed:
            parameters |= {"failed": str(failed), "reasons": SENTENCES.keep(self.session, reasons)}
        return parameters

    def redirect(
        self, path: str, *, notes: Sequence[str] = (), warnings: Sequence[str] = (), **parameters: object
    ) -> RedirectResponse:
        """Redirect after a change, so that reloading the page does not repeat it. The page shows the notes and, if it
        is that of a schedule, the warnings."""
        for name, sentences in (("notes", notes), ("warnings", warnings)):
            if sentences:
                parameters[name] = SENTENCES.keep(self.session, sentences)
        joint = "&" if "?" in path else "?"
        query = f"{joint}{urlencode(parameters)}" if parameters else ""
        return RedirectResponse(path + query, 303, {"Cache-Control": "no-store"})


LONGEST_ADDRESS = 4096


def own_page(address: str) -> str:
    """Return the path and query of one of our pages, else `/`: nothing that a browser could take for another site."""
    path = address.partition("?")[0]
    fits = is_page(path) and "//" not in path and "\\" not in path and len(address) <= LONGEST_ADDRESS
    return address if fits else "/"


def page_address(path: str, query: str) -> str:
    """Return the address of one of our pages, else `/`."""
    return own_page(quote(path) + (f"?{query}" if query else ""))


class KindPage(NamedTuple):
    """A page that a kind adds to the dashboard, with its place in the navigation."""

    item: NavigationItem
    view: Show
    act: Act | None = None
    """What a form that is sent to the page does."""


def kind_pages(services: Services) -> list[KindPage]:
    return [page for spec in services.specs.values() if spec.pages for page in load(spec.pages)]


class Form:
    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str) -> str:
        return next((value for field, value in self._pairs if field == name), "")

    def has(self, name: str) -> bool:
        return any(field == name for field, _ in self._pairs)

    def beginning(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names begin like this; of several with one name, the first."""
        return {field: self.get(field) for field, _ in self._pairs if prefix and field.startswith(prefix)}

    def all(self, name: str) -> list[str]:
        return [value for field, value in self._pairs if field == name]

    def numbers(self, name: str) -> list[int]:
        """Return the fields of this name that are whole numbers, each once."""
        numbers = (whole_number(text, 18) for text in self.all(name))
        return [number for number in dict.fromkeys(numbers) if number is not None]

    def back(self, *names: str) -> dict[str, str]:
        """Return the parameters of the list that the form was sent from, as far as their names are known."""
        try:
            pairs = parse_qsl(self.get(LIST_FIELD), max_num_fields=len(names))
        except ValueError:
            return {}
        return {name: value[:LONGEST_PARAMETER] for name, value in pairs if name in names}


def goal_of(form: Form, usual: str) -> str:
    """Return the page that a form asks to lead to, else the usual one."""
    return own_page(form.get("to")) if form.has("to") else usual


Show = Callable[[PageRequest], Response]
Act = Callable[[PageRequest, Form], Response]


def change(action: Act, read: Callable[[], Form | None], request: PageRequest) -> Response:
    """Make a change. All changes of the pages go through here, so none is made without a valid CSRF token."""
    form = read()
    if form is None:
        raise refuse("not_json", "a form was expected here")
    if not request.session or not request.browsers.proofs.fits(request.session, form.get(CSRF_FIELD)):
        raise refuse("foreign", "this form is out of date or came from another site; go back, reload and try again")
    return action(request, form)


def form_of(content_type: str, body: bytes) -> Form | None:
    """Parse a form. Call this in a thread, because a large one takes a while."""
    if content_type.partition(";")[0].strip().lower() != FORM:
        return None
    try:
        text = body.decode("ascii")
        with alone(body):
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return None
    return Form([(name, value.replace("\r\n", "\n")) for name, value in pairs])


def respond(view: Show, request: PageRequest) -> Response:
    """Render a page, or an error with the status of the API. An unreachable store is not asked for live workers."""
    try:
        return view(request)
    except DuetimeError as error:
        status = error_class(error.code).status
        if error.code in STORE_ERRORS:
            return request.render("refusal.html", status, alarms=[], code=status, message=STORE_MESSAGE)
        return request.render("refusal.html", status, code=status, message=error.message)


def at(public_id: str) -> str:
    """Return the path of a schedule's page."""
    return f"/schedules/{quote(public_id, safe='')}"
