"""Hooks: the list with a form for a new one, and the page of each with its secret, shown once, and its deliveries."""

from __future__ import annotations

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.settings_page import base_address
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.service.errors import refuse
from duetime.service.operations import hooks
from duetime.service.operations.hooks import ChangeHook, CreateHook


def hooks_page(request: PageRequest, *, problem: str | None = None, form: Form | None = None) -> Response:
    rows = hooks.hooks(request.reader).value
    typed = {name: "" if form is None else form.get(name) for name in ("name", "scheme", "secret")}
    return request.render("hooks.html", 200 if problem is None else 422, rows=rows, problem=problem, typed=typed)


def create(request: PageRequest, form: Form) -> Response:
    name, scheme, secret = (form.get(each).strip() for each in ("name", "scheme", "secret"))
    try:
        view = hooks.create_hook(request.call, CreateHook(name=name, scheme=scheme, secret=secret or None)).value
    except DuetimeError as error:
        return hooks_page(request, problem=error.message, form=form)
    return _changed(request, view["id"], secret)


def _changed(request: PageRequest, id: str, pasted: str | None) -> Response:
    """Show a new secret, this once. Whoever pasted one knows it."""
    return request.redirect(f"/settings/hooks/{id}", did="saved") if pasted else _render(request, id, with_secret=True)


def hook_page(request: PageRequest, problem: str | None = None) -> Response:
    return _render(request, request.http.path_params["id"], problem=problem)


def _render(request: PageRequest, id: str, *, with_secret: bool = False, problem: str | None = None) -> Response:
    hook = hooks.find_hook(request.reader, id)
    view = hooks.hook_view(request.reader, hook, with_secret=with_secret, base=base_address(request))
    page = request.render("hook.html", 200 if problem is None else 422, it=view, problem=problem)
    page.headers["Cache-Control"] = "no-store"
    return page


def act(request: PageRequest, form: Form) -> Response:
    change = ChangeHook(hook=request.http.path_params["id"], secret=form.get("secret").strip() or None)
    match request.http.path_params["action"]:
        case "rotate":
            try:
                hooks.rotate_hook(request.call, change)
            except InvalidInput as error:
                return hook_page(request, error.message)
            return _changed(request, change.hook, change.secret)
        case "test":
            hooks.send_test(request.call, change)
            return request.redirect(f"/settings/hooks/{change.hook}", did="reported")
        case "delete":
            hooks.delete_hook(request.call, change)
            return request.redirect("/settings/hooks", did="hook_deleted")
        case _:
            raise refuse("not_found", "There is no such page.")
