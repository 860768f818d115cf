"""Hooks: the list with a form for a new one, and the page of each with its secret, shown once, and its deliveries."""

from __future__ import annotations

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.settings_page import base_address
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.service.errors import refuse
from duetime.service.operations import hooks
from duetime.service.operations.hooks import ChangeHook, CreateHook
from duetime.service.presenters import View
from duetime.service.vocabulary import HookRow


def hooks_page(request: PageRequest, *, problem: str | None = None, form: Form | None = None) -> Response:
    rows = [_view(request, each) for each in hooks.hooks(request.reader).value]
    typed = {name: "" if form is None else form.get(name) for name in ("name", "scheme", "secret")}
    return request.render("hooks.html", 200 if problem is None else 422, rows=rows, problem=problem, typed=typed)


def create(request: PageRequest, form: Form) -> Response:
    name, scheme, secret = (form.get(each).strip() for each in ("name", "scheme", "secret"))
    try:
        hook = hooks.create_hook(request.call, CreateHook(name=name, scheme=scheme, secret=secret or None)).value
    except DuetimeError as error:
        return hooks_page(request, problem=error.message, form=form)
    return _with_secret(request, hook, is_pasted=bool(secret))


def _with_secret(request: PageRequest, hook: HookRow, *, is_pasted: bool) -> Response:
    """Show a new secret, this once. Whoever pasted one knows it."""
    if is_pasted:
        return request.redirect(f"/settings/hooks/{hook.id}", did="saved")
    return _render(request, _view(request, hook, with_secret=True))


def hook_page(request: PageRequest, problem: str | None = None) -> Response:
    return _render(request, _view(request, hooks.find_hook(request.reader, request.http.path_params["id"])), problem)


def _render(request: PageRequest, view: View, problem: str | None = None) -> Response:
    page = request.render("hook.html", 200 if problem is None else 422, it=view, problem=problem)
    page.headers["Cache-Control"] = "no-store"
    return page


def act(request: PageRequest, form: Form) -> Response:
    secret, action = form.get("secret").strip() or None, request.http.path_params["action"]
    change = ChangeHook(hook=request.http.path_params["id"], secret=secret)
    match action:
        case "rotate":
            try:
                return _with_secret(
                    request, hooks.rotate_hook(request.call, change).value, is_pasted=secret is not None
                )
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


def _view(request: PageRequest, hook: HookRow, *, with_secret: bool = False) -> View:
    base = base_address(request).rstrip("/")
    return hooks.hook_view(request.reader, hook, with_secret=with_secret, base=base)
