"""What lists share: filters that live in the address, the pages before and after, and the way back after a change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.undo import REOPEN
from duetime.service.errors import refuse
from duetime.service.operations.dead_letters import MAX_NAMED, Dealt, PlannedRetry
from duetime.service.operations.history import run_views

MOST_BACK: Final = 12
"""Pages that one can go back by; the first page can always be reached."""
NAMED: Final = 50
"""Schedules that a confirmation names."""
PARTICIPLES: Final = {
    "retry": "retried", "stop": "stopped", "resolve": "resolved", "reopen": "reopened", "dismiss": "resolved",
    "restore": "reopened", "read": "read",
}  # fmt: skip
"""What each change of runs has done, as a notice names it. `dismiss` and `restore` are former names."""
_PAGE: Final = ("cursor", "trail")
"""Parameters of a page: where it begins, and the beginnings of those that led to it."""

Choice = TypeVar("Choice", bound=str)


def choice_of(text: str, choices: Collection[Choice]) -> Choice:
    """Return the action with this name; raise an error that names all if there is none."""
    for each in choices:
        if text == each:
            return each
    raise refuse("invalid", f"choose what to do: {' or '.join(choices)}")


class ListFilter:
    """The parameters of a list as they were requested, by the page or by a form that was sent from it."""

    path: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    narrowing: ClassVar[tuple[str, ...]]
    """The names of those that leave out rows."""

    def __init__(self, request: PageRequest, form: Form | None = None) -> None:
        names = (*self.names, *_PAGE)
        pairs: Mapping[str, str]
        pairs = {name: request.parameter(name) for name in names} if form is None else form.back(*names)
        self.back = {name: value for name, value in pairs.items() if value}
        self.parameters = {name: pairs.get(name, "") for name in self.names}
        if not request.caller.operator:  # only an operator sees those of others
            self.parameters["owner"] = ""
        self.cursor = self.back.get("cursor")

    @property
    def narrowed_by(self) -> int:
        return sum(bool(self.parameters[name]) for name in self.narrowing)

    def address(self, **changed: str | None) -> str:
        """Return the address of the list with other parameters; None leaves one out."""
        pairs = {**self.parameters, **changed}
        query = urlencode({name: value for name, value in pairs.items() if value})
        return f"{self.path}?{query}" if query else self.path

    def render(self, request: PageRequest, template: str, following: str | None, **values: Any) -> Response:
        """Render a page of the list. `following` is the cursor of the next one."""
        before = [each for each in self.back.get("trail", "").split(".") if each]
        further = ".".join([*before, self.cursor][-MOST_BACK:]) if self.cursor else None
        earlier = {"cursor": before[-1] if before else None, "trail": ".".join(before[:-1])}
        return request.render(
            template,
            chosen=self,
            filters=self.parameters,
            kinds=list(request.call.services.specs),
            back=urlencode(self.back),
            next_page=None if following is None else self.address(cursor=following, trail=further),
            previous_page=self.address(**earlier) if self.cursor else None,
            first_page=self.address() if len(before) > 1 else None,
            page_number=len(before) + 2 if self.cursor else 1,
            **values,
        )

    def redirect(self, request: PageRequest, action: str, dealt: Dealt) -> Response:
        """Lead back to the list, with what became of a change of its runs; that they are resolved can be undone."""
        done = PARTICIPLES[action]
        ids = dealt.done if done == "resolved" and len(dealt.done) <= MAX_NAMED else ()
        undo = request.offer_undo(*((str(id), REOPEN) for id in ids))
        result = request.outcome(done, len(dealt.done), len(dealt.refused), dealt.reasons())
        return request.redirect(self.path, **self.back, **result, **undo)

    def confirm(
        self,
        request: PageRequest,
        form: Form,
        action: str,
        planned: Sequence[PlannedRetry],
        notes: Sequence[str] = (),
    ) -> Response:
        """Ask whether to change these runs of the list, with a list by schedule."""
        names = ("one", "all", "action", "matching", "group", "run")
        return request.render(
            "confirm_retry.html",
            action=action,
            list=self.path,
            planned=planned,
            notes=notes,
            rows=run_views(request.reader, [each.newest for each in planned[:NAMED]], brief=True),
            chosen=[(name, value) for name in names for value in form.all(name)],
            back=form.get("back"),
        )
