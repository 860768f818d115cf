"""Sign-in by the link that `duetime serve` prints or with a pasted token, and sign-out."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from duetime.dashboard.request import LONGEST_ADDRESS, Form, PageRequest, form_of, own_page, page_address
from duetime.dashboard.templates import is_https, render
from duetime.engine.errors import StoreUnavailable, StoreUnusable
from duetime.http.browser_sessions import Browsers, cookie_name, is_own
from duetime.http.sessions import SESSION_LIFE
from duetime.security.claims import InvalidToken
from duetime.security.tokens import TooManySignIns
from duetime.service.errors import STORE_MESSAGE


def sign_in_page(scope: Scope, problem: str | None = None, status: int = 401, goal: str | None = None) -> Response:
    """Render the sign-in page at the requested address, to which signing in returns."""
    goal = _requested_page(scope) if goal is None else goal
    answer = render(scope, "sign_in.html", status, problem=problem, goal=goal)
    answer.headers["WWW-Authenticate"] = 'Bearer realm="duetime"'
    return answer


def _requested_page(scope: Scope) -> str:
    if scope["method"] != "GET":
        return "/"
    return page_address(scope["path"], scope["query_string"].decode("ascii", "replace"))


def not_found_page(scope: Scope, status: int) -> Response:
    """Render the page for an unknown address. The caller is not identified here, so it is the same for everyone."""
    return render(scope, "not_found.html", status)


class SignIn:
    def __init__(self, browsers: Browsers) -> None:
        self._browsers = browsers

    async def show(self, request: Request) -> Response:
        """Sign in with the link, which works once. A HEAD request, which only checks where it leads, does not use it
        up."""
        link = request.query_params.get("token", "")
        sessions = self._browsers.sessions
        if sessions is None:
            return _go("/")
        if not link or request.method != "GET":
            return sign_in_page(request.scope, status=200)
        return await run_in_threadpool(self._enter, request, sessions.by_link, link, "/")

    async def enter(self, request: Request) -> Response:
        """Sign in with a pasted token. There is no session yet, so the only check is that the form was ours."""
        sessions = self._browsers.sessions
        form = await run_in_threadpool(form_of, request.headers.get("content-type", ""), await request.body())
        if sessions is None or form is None or not is_own(request.headers):
            return sign_in_page(request.scope, "This did not come from the form on this page; try again here.", 403)
        goal = own_page(form.get("goal"))
        token = form.get("token").strip().removeprefix("Bearer ").strip()
        return await run_in_threadpool(self._enter, request, sessions.by_either, token, goal)

    def _enter(self, request: Request, session_for: Callable[[str], str], credential: str, goal: str) -> Response:
        try:
            token = session_for(credential[:LONGEST_ADDRESS])
        except (InvalidToken, TooManySignIns) as problem:
            message = f"{problem.message[:1].upper()}{problem.message[1:]}."
            return sign_in_page(request.scope, message, 429 if isinstance(problem, TooManySignIns) else 401, goal)
        except (StoreUnavailable, StoreUnusable):
            return sign_in_page(request.scope, STORE_MESSAGE, 503, goal=goal)
        answer = _go(goal)
        answer.set_cookie(
            cookie_name(request.headers),
            token,
            max_age=SESSION_LIFE // 1_000_000,
            httponly=True,
            samesite="strict",
            secure=is_https(request.scope),
        )
        return answer


def sign_out(request: PageRequest, _form: Form) -> Response:
    """Revoke the session and delete its cookie."""
    if request.browsers.sessions is not None and request.session:
        request.browsers.sessions.end(request.session)
    answer = _go("/login")
    answer.delete_cookie(cookie_name(Headers(scope=request.http.scope)), httponly=True, samesite="strict")
    return answer


def _go(path: str) -> Response:
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return RedirectResponse(path, 303, headers)
