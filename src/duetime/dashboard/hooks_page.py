"""Hooks: the list with a form for a new one, and the page of each with its secret, shown once, and its deliveries."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from duetime.dashboard.request import Form, PageRequest
from duetime.dashboard.settings_page import base_address
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.service.errors import refuse
from duetime.service.operations import hooks
from duetime.service.operations.hooks import CreateHook, OneHook, RotateHook
from duetime.service.presenters import View
from duetime.service.vocabulary import HookRow

SCHEMES: Final = {
    "github": "GitHub",
    "standard": "Standard Webhooks",
    "stripe": "Stripe",
    "hmac": "HMAC with SHA-256",
    "url": "Secret address",
}


def hooks_page(request: PageRequest, *, problem: str | None = None, form: Form | None = None) -> Response:
    rows = [_view(request, each) for each in hooks.hooks(request.reader).value]
    typed = {name: "" if form is None else form.get(name) for name in ("name", "scheme", "secret")}
    status = 200 if problem is None else 422
    return request.render("hooks.html", status, rows=rows, schemes=SCHEMES, problem=problem, typed=typed)


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


def hook_page(request: PageRequest) -> Response:
    return _render(request, _view(request, hooks.show_hook(request.reader, _hook(request)).value))


def _render(request: PageRequest, view: View, **more: Any) -> Response:
    local, status = hooks.is_local(view["url"]), 422 if more else 200
    page = request.render("hook.html", status, it=view, schemes=SCHEMES, local=local, **{"problem": None, **more})
    page.headers["Cache-Control"] = "no-store"
    return page


def act(request: PageRequest, form: Form) -> Response:
    one, call = _hook(request), request.call
    match request.http.path_params["action"]:
        case "rotate":
            change = RotateHook(hook=one.hook, secret=form.get("secret").strip() or None)
            try:
                return _with_secret(request, hooks.rotate_hook(call, change).value, is_pasted=change.secret is not None)
            except InvalidInput as error:
                return _render(request, _view(request, hooks.show_hook(call, one).value), problem=error.message)
        case "test":
            hooks.send_test(call, one)
            return request.redirect(f"/settings/hooks/{one.hook}", did="reported")
        case "delete":
            hooks.delete_hook(call, one)
            return request.redirect("/settings/hooks", did="hook_deleted")
        case _:
            raise refuse("not_found", "There is no such page.")


def _hook(request: PageRequest) -> OneHook:
    return OneHook(hook=request.http.path_params["id"])


def _view(request: PageRequest, hook: HookRow, *, with_secret: bool = False) -> View:
    base = base_address(request).rstrip("/")
    return hooks.hook_view(request.reader, hook, with_secret=with_secret, base=base)
