"""Hooks: the list with a form for a new one, and the page of each with its secret, shown once, and its deliveries."""

from __future__ import annotations

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.settings_page import base_address
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.service.errors import refuse
from duetime.service.operations import hooks
from duetime.service.operations.hooks import ChangeHook, CreateHook
from duetime.service.vocabulary import HookRow


def hooks_page(request: PageRequest, *, problem: str | None = None, form: Form | None = None) -> Response:
    rows = hooks.hooks(request.reader, base_address(request)).value
    typed = {name: "" if form is None else form.get(name) for name in ("name", "scheme", "secret")}
    return request.render("hooks.html", 200 if problem is None else 422, rows=rows, problem=problem, typed=typed)


def create(request: PageRequest, form: Form) -> Response:
    name, scheme, secret = (form.get(each).strip() for each in ("name", "scheme", "secret"))
    try:
        hook = hooks.create_hook(request.call, CreateHook(name=name, scheme=scheme, secret=secret or None)).value
    except DuetimeError as error:
        return hooks_page(request, problem=error.message, form=form)
    return _changed(request, hook, secret)


def _changed(request: PageRequest, hook: HookRow, pasted: str | None) -> Response:
    """Show a new secret, this once. Whoever pasted one knows it."""
    return request.redirect(f"/settings/hooks/{hook.id}", did="saved") if pasted else _render(request, hook, True)


def hook_page(request: PageRequest, problem: str | None = None) -> Response:
    return _render(request, hooks.find_hook(request.reader, request.http.path_params["id"]), problem=problem)


def _render(request: PageRequest, hook: HookRow, with_secret: bool = False, problem: str | None = None) -> Response:
    view = hooks.hook_view(request.reader, hook, with_secret=with_secret, base=base_address(request))
    page = request.render("hook.html", 200 if problem is None else 422, it=view, problem=problem)
    page.headers["Cache-Control"] = "no-store"
    return page


def act(request: PageRequest, form: Form) -> Response:
    change = ChangeHook(hook=request.http.path_params["id"], secret=form.get("secret").strip() or None)
    match request.http.path_params["action"]:
        case "rotate":
            try:
                return _changed(request, hooks.rotate_hook(request.call, change).value, change.secret)
            except InvalidInput as error:
                return hook_page(request, error.message)
        case "test":
            hooks.send_test(request.call, change)
            return request.redirect(f"/settings/hooks/{change.hook}", did="reported")
        case "delete":
            hooks.delete_hook(request.call, change)
            return request.redirect("/settings/hooks", did="hook_deleted")
        case _:
            raise refuse("not_found", "There is no such page.")
