"""Routes of the pages. Reads are GET requests and changes are forms, so that all work without JavaScript."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from duetime.dashboard import (
    dead_letters,
    events_page,
    finder,
    home,
    hooks_page,
    run_page,
    runs_page,
    schedule_form,
    schedule_list,
    schedule_page,
    settings_page,
    shell,
    waiting_runs,
)
from duetime.dashboard.login import SignIn, sign_out
from duetime.dashboard.request import Act, PageRequest, Show, change, form_of, kind_pages, respond
from duetime.dashboard.templates import serve_static
from duetime.dashboard.timeline.page import timeline_page
from duetime.http.auth import WebContext
from duetime.http.browser_sessions import Browsers, add_page


def web_routes(context: WebContext, browsers: Browsers) -> list[BaseRoute]:
    """Return the routes. Views and actions are synchronous and run in a thread pool."""
    sign_in = SignIn(browsers)

    def show(path: str, view: Show) -> Route:
        async def endpoint(request: Request) -> Response:
            page = PageRequest(request, context, browsers, context.identify("dashboard"))
            return await run_in_threadpool(respond, view, page)

        return Route(path, endpoint, methods=["GET"])

    def act(path: str, action: Act) -> Route:
        async def endpoint(request: Request) -> Response:
            page = PageRequest(request, context, browsers, context.identify("dashboard"))
            read = partial(form_of, request.headers.get("content-type", ""), await request.body())
            return await run_in_threadpool(respond, partial(change, action, read), page)

        return Route(path, endpoint, methods=["POST"])

    of_kinds = kind_pages(context.services)
    for page in of_kinds:
        add_page(page.item.path)
    return [
        Route("/login", sign_in.show, methods=["GET"]),
        Route("/login", sign_in.enter, methods=["POST"]),
        Route("/static/{name}", serve_static, methods=["GET"]),
        act("/sign-out", sign_out),
        show("/help", shell.help_page),
        show("/preferences", shell.preferences_page),
        act("/preferences", shell.save_preferences),
        act("/undo", shell.undo),
        show("/find", finder.find),
        show("/", home.home_page),
        act("/attention/{key}/{action}", home.resolve),
        show("/timeline", timeline_page),
        show("/new", schedule_form.new_page),
        act("/new", schedule_form.create),
        show("/schedules", schedule_list.schedules_page),
        act("/schedules", schedule_list.bulk),
        show("/schedules/{id}", schedule_page.schedule_page),
        show("/schedules/{id}/edit", schedule_form.edit_page),
        act("/schedules/{id}/edit", schedule_form.save),
        show("/schedules/{id}/{action}", schedule_page.confirm_page),
        act("/schedules/{id}/{action}", schedule_page.act),
        show("/runs", runs_page.runs_page),
        act("/runs", runs_page.change_matching),
        show("/runs/{run:int}", run_page.run_page),
        show("/runs/{run:int}/again", run_page.again_page),
        act("/runs/{run:int}/again", run_page.run_edited),
        act("/runs/{run:int}/{action}", run_page.act_on_run),
        show("/dead-letters", dead_letters.dead_letters_page),
        act("/dead-letters", dead_letters.change_dead_letters),
        show("/settings", settings_page.settings_page),
        act("/settings", settings_page.change_settings),
        show("/settings/events", events_page.events_page),
        show("/settings/hooks", hooks_page.hooks_page),
        act("/settings/hooks", hooks_page.create),
        show("/settings/hooks/{id}", hooks_page.hook_page),
        act("/settings/hooks/{id}/{action}", hooks_page.act),
        show("/connect", settings_page.connect_page),
        act("/waiting/{run:int}/{action}", waiting_runs.act),
        *(show(page.item.path, page.view) for page in of_kinds),
        *(act(page.item.path, page.act) for page in of_kinds if page.act is not None),
    ]
