"""The page of one run tells why it failed and with what input, and runs it again with another input."""

from __future__ import annotations

import re
from typing import Any

import pytest

from duetime.dashboard import schedule_stats
from duetime.engine.clock import DAY, MINUTE, Instant
from duetime.engine.worker.capture import write_log
from duetime.http.sessions import Sessions
from tests.support.api import Api, Client
from tests.support.browsing import FORM, words
from tests.support.web import Reply


class Pages:
    """The pages as an operator reads them without a script, on a settable clock."""

    def __init__(self, api: Api) -> None:
        self.http = api.http
        self.http.get(f"/login?token={Sessions(api.tokens, api.simulation.clock).link()}")

    def reply(self, path: str) -> Reply:
        answer = self.http.get(path)
        return Reply(answer.status_code, answer.headers, answer.content)

    def html(self, path: str) -> str:
        reply = self.reply(path)
        assert reply.status == 200, (path, words(reply))
        return reply.body.decode()

    def text(self, path: str) -> str:
        reply = self.reply(path)
        assert reply.status == 200, (path, words(reply))
        return words(reply)

    def send(self, path: str, **fields: str) -> Reply:
        proof = re.search(r'name="csrf" content="([^"]+)"', self.html("/new"))
        assert proof is not None
        answer = self.http.post(path, data={**fields, "csrf": proof[1]}, headers=FORM, follow_redirects=False)
        return Reply(answer.status_code, answer.headers, answer.content)


@pytest.fixture
def pages(api: Api) -> Pages:
    return Pages(api)


SOON = {"type": "once", "run_at": "in 5 minutes"}


def run_of(client: Client, schedule: dict[str, Any]) -> int:
    number: int = client.get(f"/schedules/{schedule['id']}/runs")["runs"][0]["run_id"]
    return number


@pytest.mark.parametrize("own", [False, True])
def test_a_failed_run_says_that_its_schedule_was_edited_after_the_last_success(
    api: Api, ada: Client, pages: Pages, own: bool
) -> None:
    """The input of a run is that of the schedule unless it has its own, so an edit in between hides the difference."""
    made = ada.job(payload={"task": "echo", "args": ["hi"]}, trigger={"type": "interval", "hours": 1})
    address = f"/schedules/{made['id']}"
    api.pass_time(hours=1)
    success = run_of(ada, made)
    if own:
        success = ada.post(f"/runs/{success}/again", {"fields": {"args": ["own"]}}, 202)["run_id"]
    api.pass_time(minutes=1)
    assert ada.ask("PATCH", address, json={"payload": {"task": "fail", "args": []}}).status_code == 200
    api.pass_time(hours=1)
    text = pages.text(f"/runs/{run_of(ada, made)}")
    hint = f"after run {success} , the last that succeeded. That run may have had another input"
    assert (hint in text, f"Not as in run {success} " in text) == (not own, own)
    assert "may have had" not in pages.text(f"/runs/{success}")


def test_a_failed_run_shows_its_course_its_error_and_its_input(api: Api, ada: Client, pages: Pages) -> None:
    policy = {"max_attempts": 2, "backoff_seconds": 10}
    made = ada.job(name="Sync <b>it</b>", payload={"task": "fail"}, policy=policy, trigger=SOON)
    api.pass_time(minutes=5)
    run = run_of(ada, made)
    waiting = pages.text(f"/runs/{run}")
    assert "next attempt in" in waiting and "Waiting to retry" in waiting and "Last error" in waiting
    api.pass_time(hours=1)
    page, text = pages.html(f"/runs/{run}"), pages.text(f"/runs/{run}")
    assert "<h1>Sync &lt;b&gt;it&lt;/b&gt;</h1>" in page
    for told in ("Attempt 1 failed", "Waited to retry", "Attempt 2 failed", "2 of 2", f"duetime runs again {run}"):
        assert told in text, told
    assert (
        text.index("RuntimeError: as always")
        < text.index('raise RuntimeError("as always")')
        < text.index("Full traceback")
    )
    assert "tests/support/api.py" in text, "the frame of the task"
    assert "task fail" in text and '"task": "fail"' in text
    assert f'href="/api/v1/runs/{run}"' in page
    assert pages.send(f"/runs/{run}/retry").status == 303
    again = pages.text(f"/runs/{run}")
    assert "Stop" in again and "Retry" not in again.partition("Trace")[0]


def test_a_page_shows_the_log_without_a_script(api: Api, ada: Client, pages: Pages) -> None:
    @api.room.registry.task
    def write() -> None:
        write_log("first <b>line</b>\\n")
        raise ValueError("as asked")

    policy = {"max_attempts": 2, "backoff_seconds": 10}
    made = ada.job(payload={"task": "write"}, trigger=SOON, policy=policy)
    api.pass_time(minutes=6)
    html = pages.html(f"/runs/{run_of(ada, made)}")
    assert html.count("<pre>first &lt;b&gt;line&lt;/b&gt;") == 2 and "Earlier attempts" in html
    assert "data-log" not in html, "it has ended, so nothing is read on"
    silent = ada.job(trigger=SOON)
    api.pass_time(minutes=6)
    assert 'id="log"' not in pages.html(f"/runs/{run_of(ada, silent)}")


def test_a_run_in_progress_says_how_long_it_usually_takes(api: Api, ada: Client, pages: Pages) -> None:
    clock, seen = api.simulation.clock, list[str]()

    @api.room.registry.task
    def slow() -> None:
        clock.move_to(Instant(clock.now() + 6 * MINUTE))
        if len(seen) == 2:
            [run] = ada.get("/runs", status="running")["runs"]
            seen.append(pages.text(f"/runs/{run['run_id']}"))
            assert ada.get(f"/runs/{run['run_id']}")["usual_seconds"] == 720
        else:
            seen.append("")
        clock.move_to(Instant(clock.now() + 6 * MINUTE))

    made = ada.job(payload={"task": "slow"}, trigger={"type": "interval", "hours": 1})
    for _ in range(3):
        api.pass_time(hours=1, minutes=1)
    assert "6 min so far, usually 12 min" in seen[2]
    assert ada.get(f"/runs/{run_of(ada, made)}")["usual_seconds"] is None, "it is over"


def test_the_text_of_a_prompt_and_the_fate_of_a_message_are_readable(api: Api, ada: Client, pages: Pages) -> None:
    prompt = ada.job(kind="prompt", name="Review", payload={"prompt": "Look back.\n\n**Then** plan."}, trigger=SOON)
    told = ada.notification(trigger=SOON)
    api.pass_time(hours=1)
    waiting = pages.text(f"/runs/{run_of(ada, prompt)}")
    assert "Look back. **Then** plan." in waiting and "Waiting for an agent" in waiting
    sent = pages.text(f"/runs/{run_of(ada, told)}")
    assert "Kept in the inbox, topic alerts" in sent and '"channel": "inbox"' in sent
    history = pages.text(f"/schedules/{told['id']}")
    assert "Kept in the inbox, topic alerts" in history and "notification_id" not in history.partition("Details")[0]


def test_it_runs_again_with_an_edited_input(api: Api, ada: Client, pages: Pages) -> None:
    made = ada.job(name="Echo", payload={"task": "echo", "args": ["first"]})
    api.pass_time(hours=1)
    run = run_of(ada, made)
    form = pages.html(f"/runs/{run}/again")
    assert 'name="field-args"' in form and "&#34;first&#34;" in form
    broken = pages.send(f"/runs/{run}/again", **{"field-task": "echo", "field-args": "[1,", "field-kwargs": "{}"})
    assert broken.status == 422 and "args: this is not valid JSON (line 1" in words(broken)
    assert "[1," in broken.body.decode() and "autofocus" in broken.body.decode(), "what was typed is kept"
    other = pages.send(f"/runs/{run}/again", **{"field-task": "fail", "field-args": "[]", "field-kwargs": "{}"})
    assert other.status == 422 and "create a schedule for it" in words(other)
    done = pages.send(f"/runs/{run}/again", **{"field-task": "echo", "field-args": '["second"]', "field-kwargs": "{}"})
    assert done.status == 303, words(done)
    api.pass_time(minutes=1)
    page = pages.text(done.headers["location"].partition("?")[0])
    assert "started by local (dashboard), with its own input" in page and "second" in page and "Previous run" in page
    assert "first" in pages.text(f"/schedules/{made['id']}").partition("Details")[0], "the schedule keeps its own"
    ada.ask("DELETE", f"/schedules/{made['id']}")
    assert pages.reply(f"/runs/{run}/again").status == 409
    assert "Deleted schedule" in pages.text(f"/runs/{run}")


# -- one schedule ---------------------------------------------------------------------------------------------------


def test_a_success_rate_says_when_it_is_not_of_all_runs(
    api: Api, ada: Client, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ada.job(name="Often", payload={"task": "fail"}, policy={"pause_after": 0})
    api.pass_time(hours=3)
    assert "runs of each day" not in pages.text(f"/schedules/{made['id']}")
    monkeypatch.setattr(schedule_stats, "EACH", 1)
    assert "in 30 days, of the latest 1 runs of each day" in pages.text(f"/schedules/{made['id']}")


def test_a_schedule_that_always_fails_says_so_first(api: Api, ada: Client, pages: Pages) -> None:
    made = ada.job(name="Sync", payload={"task": "fail"}, policy={"pause_after": 0})
    api.pass_time(hours=7)
    page, text = pages.html(f"/schedules/{made['id']}"), pages.text(f"/schedules/{made['id']}")
    head = text.partition("Last 30 days")[0]
    assert "failing failed all 7 times since" in head and "RuntimeError: as always" in head
    assert "Success rate 0%" in text and "0 of 7 runs in 30 days" in text
    assert page.count('class="day is-') == 30 and 'class="day is-bad"' in page
    assert "Duration of the last 7 runs: median" in page and "Lateness of the last 7 runs: median" in page


def test_the_ribbon_tells_good_days_from_bad_and_missed_ones(api: Api, ada: Client, pages: Pages) -> None:
    made = ada.job(name="Often")
    api.pass_time(days=1)
    clock = api.simulation.clock
    clock.move_to(Instant(clock.now() + 2 * DAY))
    api.pass_time(days=1)
    page = pages.html(f"/schedules/{made['id']}")
    styles = re.findall(r'class="day is-(\w+)"', page)
    assert styles[-6:] == ["none", "good", "good", "missed", "missed", "good"] or "missed" in styles[-4:], styles
    assert "100%" in page


def test_the_history_is_filtered_without_a_script(api: Api, ada: Client, pages: Pages) -> None:
    made = ada.job(name="Filtered")
    api.pass_time(days=2)
    ada.post(f"/schedules/{made['id']}/cancel")
    path = f"/schedules/{made['id']}"

    def rows(query: str) -> int:
        return pages.html(f"{path}?{query}").count('<td class="at">')

    assert rows("status=completed") == 20 and rows("status=failed") == 0
    assert rows("from=2026-02-12&to=2026-02-12") == 14 + 1
    assert "No run matches these filters." in pages.text(f"{path}?status=missed")
    assert "from:" in pages.text(f"{path}?from=soonish"), "what cannot be read is said, and the page stays"
    following = re.search(r'href="([^"]+)" rel="next"', pages.html(f"{path}?status=completed"))
    assert following is not None and "status=completed" in following[1]
    assert rows(following[1].replace("&amp;", "&").partition("?")[2]) == 20


def test_a_finished_one_off_shows_what_came_of_it(api: Api, ada: Client, pages: Pages) -> None:
    made = ada.job(name="Once", trigger=SOON)
    api.pass_time(hours=1)
    text = pages.text(f"/schedules/{made['id']}")
    assert "Result" in text and "hello" in text and "It is over." not in text
    assert "Last 30 days" not in text and "History" not in text
