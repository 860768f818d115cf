"""Routes of the pages. Reads are GET requests and changes are forms, so that all work without JavaScript."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from duetime.dashboard import home, runs, schedule_detail, schedule_form, schedule_list, static_files
from duetime.dashboard.login import Signing, sign_out
from duetime.dashboard.request import Act, Pages, Show
from duetime.dashboard.timeline.page import timeline_page
from duetime.http.browser_sessions import Browsers
from duetime.rest.dependencies import ApiContext


def web_routes(house: ApiContext, browsers: Browsers) -> list[BaseRoute]:
    pages, signing = Pages(house, browsers), Signing(browsers)

    def show(path: str, view: Show) -> Route:
        return Route(path, pages.show(view), methods=["GET"])

    def act(path: str, action: Act) -> Route:
        return Route(path, pages.act(action), methods=["POST"])

    return [
        Route("/login", signing.show, methods=["GET"]),
        Route("/login", signing.enter, methods=["POST"]),
        Route("/static/{name}", static_files.serve, methods=["GET"]),
        act("/sign-out", sign_out),
        show("/", home.now_page),
        show("/timeline", timeline_page),
        show("/new", schedule_form.new_page),
        act("/new", schedule_form.create),
        show("/schedules", schedule_list.schedules_page),
        act("/schedules", schedule_list.bulk),
        show("/schedules/{id}", schedule_detail.schedule_page),
        show("/schedules/{id}/edit", schedule_form.edit_page),
        act("/schedules/{id}/edit", schedule_form.save),
        show("/schedules/{id}/{action}", schedule_detail.sure_page),
        act("/schedules/{id}/{action}", schedule_detail.act),
        show("/runs/{run:int}", runs.run_page),
        act("/runs/{run:int}/{action}", runs.act_on_run),
        show("/inbox", runs.inbox_page),
        show("/dead-letters", runs.dead_page),
        act("/dead-letters", runs.bulk_dead),
    ]
