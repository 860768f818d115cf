"""Routes of the pages. Reads are GET requests and changes are forms, so that all work without JavaScript."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from duetime.dashboard import home as now
from duetime.dashboard import runs
from duetime.dashboard import schedule_detail as one
from duetime.dashboard import schedule_form as making
from duetime.dashboard import schedule_list as schedules
from duetime.dashboard import static_files as statics
from duetime.dashboard.login import Signing, sign_out
from duetime.dashboard.request import Act, Pages, Show
from duetime.dashboard.timeline import page as timeline
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
        Route("/static/{name}", statics.serve, methods=["GET"]),
        act("/sign-out", sign_out),
        show("/", now.now_page),
        show("/timeline", timeline.timeline_page),
        show("/new", making.new_page),
        act("/new", making.create),
        show("/schedules", schedules.schedules_page),
        act("/schedules", schedules.bulk),
        show("/schedules/{id}", one.schedule_page),
        show("/schedules/{id}/edit", making.edit_page),
        act("/schedules/{id}/edit", making.save),
        show("/schedules/{id}/{action}", one.sure_page),
        act("/schedules/{id}/{action}", one.act),
        show("/runs/{run:int}", runs.run_page),
        act("/runs/{run:int}/{action}", runs.act_on_run),
        show("/inbox", runs.inbox_page),
        show("/dead-letters", runs.dead_page),
        act("/dead-letters", runs.bulk_dead),
    ]
