"""Named channels to real receivers: plain requests with their templates, and Apprise, which tells only yes or no."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest

from duetime.engine.clock import SECOND
from duetime.engine.outcome import Completed, Failed, Outcome, Retry, Returned
from duetime.kinds.notifications.channels.apprise import text_of, type_of
from duetime.kinds.notifications.channels.ntfy import NtfyServer
from duetime.settings import AgentSettings, ChannelSettings, NotificationSettings
from tests.support.channels import FULL, delivery, everything_logged, outgoing, told
from tests.support.receiver import Behaviour, Fault, Receiver

NASTY = 'Größe: "5 < 6" & \\ {id}\n&user=root'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def sent(spec: ChannelSettings, **given: Any) -> Outcome:
    with delivery(channels={"hook": spec}) as made:
        assert made.problems() == []
        return made.deliver(outgoing(topic="hook", **given))


# -- plain requests -----------------------------------------------------------------------------------------------


def test_without_a_template_all_fields_go_as_json(receiver: Receiver) -> None:
    outcome = sent(ChannelSettings(f"{receiver.url}/hook?key=1", headers={"X-Token": "hush"}), fields=FULL)
    assert told(outcome) == {"channel": "hook", "status": 200}
    [request] = receiver.requests
    assert (request.method, request.target) == ("POST", "/hook?key=1")
    assert json.loads(request.body) == {"id": "msg_1", **FULL, "topic": "hook"}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-token"] == "hush"
    assert request.headers["idempotency-key"] == "msg_1"


def test_a_json_template_keeps_values_inside_their_quotes(receiver: Receiver) -> None:
    template = '{"text": "{title}: {message}", "on": ["{topic}", "{id}"], "other": "{unknown}"}'
    sent(ChannelSettings(receiver.url, body=template), message=NASTY, title='a "b"', id_="scd_1.2")
    [request] = receiver.requests
    assert json.loads(request.body) == {
        "text": f'a "b": {NASTY}',
        "on": ["hook", "scd_1.2"],
        "other": "{unknown}",
    }
    assert request.headers["content-type"] == "application/json"


def test_a_form_keeps_values_inside_their_fields(receiver: Receiver) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    sent(ChannelSettings(receiver.url, "put", headers, "user=me&text={message}&title={title}"), message=NASTY)
    [request] = receiver.requests
    assert request.method == "PUT"
    assert parse_qs(request.body.decode(), keep_blank_values=True) == {"user": ["me"], "text": [NASTY], "title": [""]}
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"


def test_xml_keeps_values_inside_their_elements(receiver: Receiver) -> None:
    sent(
        ChannelSettings(receiver.url, "POST", {"Content-Type": "text/xml"}, "<m t='{title}'>{message}</m>"),
        message=NASTY,
    )
    parsed = ElementTree.fromstring(receiver.requests[0].body)  # noqa: S314 - our own
    assert parsed.text == NASTY


def test_plain_text_is_sent_as_it_is(receiver: Receiver) -> None:
    sent(ChannelSettings(receiver.url, body="{title}|{message}|{id}"), message=NASTY)
    [request] = receiver.requests
    assert request.body.decode() == f"|{NASTY}|msg_1"
    assert request.headers["content-type"] == "text/plain; charset=utf-8"


def test_an_operator_may_choose_the_key_of_repeats(receiver: Receiver) -> None:
    sent(ChannelSettings(receiver.url, headers={"Idempotency-Key": "mine"}))
    assert receiver.requests[0].headers["idempotency-key"] == "mine"


@pytest.mark.parametrize(
    ("behaviour", "error", "after"),
    [
        (Behaviour(500), "channel hook answered 500", 0),
        (Behaviour(429, {"Retry-After": "3"}), "channel hook answered 429", 3 * SECOND),
        (Behaviour(fault=Fault.SILENCE), "channel hook did not answer within 0.3 s", 0),
        (Behaviour(fault=Fault.CLOSE), "channel hook closed the connection without an answer", 0),
        (Behaviour(fault=Fault.RESET), "channel hook closed the connection without an answer", 0),
    ],
)
def test_a_channel_is_called_by_its_name_alone(
    receiver: Receiver, behaviour: Behaviour, error: str, after: int
) -> None:
    """Its host may be as secret as its path: some services put the key there."""
    receiver.behave = lambda request: behaviour
    outcome = sent(ChannelSettings(f"{receiver.url}/hush"), patience=0.3 if "within 0.3 s" in error else 20.0)
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith(error) and "127.0.0.1" not in outcome.error
    assert outcome.after == after


@pytest.mark.parametrize("url", ["http://hush.invalid/", "http://hush.invalid:8080/"])
def test_a_channel_that_cannot_be_found_does_not_name_its_host(url: str) -> None:
    outcome = sent(ChannelSettings(url))
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith("channel hook ") and "hush" not in outcome.error


PROBLEMS: list[tuple[str, ChannelSettings, str]] = [
    ("hook", ChannelSettings(""), "channels.hook: it has no url"),
    ("hook", ChannelSettings("http://"), "channels.hook: the address has no valid host"),
    ("hook", ChannelSettings("https://me:hush@example.org/"), "channels.hook: the address holds a user name"),
    ("hook", ChannelSettings("https://example.org/", "GET"), "channels.hook: its method must be POST, PUT, PATCH"),
    ("hook", ChannelSettings("https://example.org/", "POST", {"X A": "hush"}), "channels.hook: a header name holds"),
    (
        "hook",
        ChannelSettings("https://example.org/", "POST", {"X": "hush\n"}),
        "channels.hook: the header X contains a line",
    ),
    (
        "hook",
        ChannelSettings("https://example.org/", "POST", {"Host": "hush"}),
        "channels.hook: the header Host is set by",
    ),
    (
        "hook",
        ChannelSettings("https://example.org/", body='{"hush": {message}}'),
        "channels.hook: its body is not valid",
    ),
    ("hook", ChannelSettings("hush"), "channels.hook: Apprise does not understand its url"),
    ("hook", ChannelSettings("hush://me:hush@example.org"), "channels.hook: Apprise does not understand its url"),
    ("hook", ChannelSettings("tgram://hush"), "channels.hook: Apprise does not understand its url"),
    ("inbox", ChannelSettings("https://example.org/"), "channels.inbox: this is the name of the built-in inbox"),
    ("My Phone", ChannelSettings("https://example.org/"), "channels.My Phone: no topic can have this name"),
]


@pytest.mark.parametrize(("name", "spec", "said"), PROBLEMS)
def test_what_cannot_be_used_is_found_without_showing_it(
    name: str, spec: ChannelSettings, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), delivery(channels={name: spec}) as made:
        [problem] = made.problems()
        assert problem.startswith(said) and "hush" not in problem
        if name == "hook":
            assert made.deliver(outgoing(topic=name)) == Failed(problem, permanent=True)
        else:
            assert made.channel_of(name) == "inbox"
    assert "hush" not in everything_logged(caplog)


def test_what_was_set_is_not_shown_with_it() -> None:
    """Traces show settings as these show themselves."""
    given = ("https://hush.example.org/", "POST", {"X-Token": "hush"}, "hush {message}")
    shown = (
        ChannelSettings(*given),
        ChannelSettings(*given),
        NotificationSettings(prefix="hush", token="hush", qstash_token="hush"),
        NtfyServer("https://ntfy.example.org", "hush", "hush"),
        AgentSettings(type="webhook", url="https://hush.example.org/", secret="hush"),
    )
    assert [each for each in shown if "hush" in repr(each)] == []


# -- Apprise ------------------------------------------------------------------------------------------------------


def by_apprise(receiver: Receiver, scheme: str, path: str = "/", **given: Any) -> Outcome:
    return sent(ChannelSettings(f"{scheme}://{receiver.host}{path}"), **given)


def test_apprise_delivers(receiver: Receiver) -> None:
    assert by_apprise(receiver, "json", "/hush?-key=hush", fields=FULL) == Completed('{"channel": "hook"}')
    [request] = receiver.requests
    body = json.loads(request.body)
    assert request.path == "/hush"
    assert (body["title"], body["type"]) == ("Garden", "warning")
    assert body["message"].splitlines()[-3:] == [
        "https://example.org/garden",
        "plan.pdf: https://example.org/plan.pdf",
        "Open: https://example.org/open",
    ]
    assert "attachments" not in body or body["attachments"] == []


def test_apprise_delivers_to_ntfy(receiver: Receiver) -> None:
    assert by_apprise(receiver, "ntfy", "/garden", message="hi", title="T") == Completed('{"channel": "hook"}')
    body = json.loads(receiver.requests[0].body)
    assert (body["topic"], body["title"], body["message"]) == ("garden", "T", "hi")


@pytest.mark.parametrize("scheme", ["json", "ntfy"])
@pytest.mark.parametrize(
    "behaviour",
    [Behaviour(500), Behaviour(403), Behaviour(fault=Fault.CLOSE), Behaviour(fault=Fault.RESET)],
    ids=["500", "403", "close", "reset"],
)
def test_a_failure_of_apprise_is_tried_again(receiver: Receiver, scheme: str, behaviour: Behaviour) -> None:
    receiver.behave = lambda request: behaviour
    expected = Retry("channel hook did not take it; Apprise does not say why")
    assert by_apprise(receiver, scheme, "/hush") == expected
    assert receiver.requests


@pytest.mark.parametrize(
    "behaviour", [Behaviour(fault=Fault.SILENCE), Behaviour(200, {}, b"x" * 1000, drip=0.05)], ids=["silence", "drip"]
)
def test_apprise_has_no_more_time_than_the_message(receiver: Receiver, behaviour: Behaviour) -> None:
    """Its own timeouts count from byte to byte: one that drips would hold it for ever."""
    receiver.behave = lambda request: behaviour
    outcome = by_apprise(receiver, "json", "/hush", patience=0.4)
    assert isinstance(outcome, Retry)
    assert outcome.error in (
        "channel hook did not take it within 0.4 s",
        "channel hook did not take it; Apprise does not say why",
    )


def test_apprise_fetches_nothing_that_an_agent_names(receiver: Receiver) -> None:
    files = {"attach": f"{receiver.url}/attachment", "icon": f"{receiver.url}/icon", "filename": "a.pdf"}
    assert isinstance(by_apprise(receiver, "json", "/in", **files), Completed)
    assert [request.path for request in receiver.requests] == ["/in"]


def test_apprise_formats_what_is_markdown(receiver: Receiver) -> None:
    """A service that shows HTML gets it converted, or escaped where it is only text."""
    for markdown in (True, False):
        sent(ChannelSettings(f"json://{receiver.host}/?format=html"), message="**now** <b>", markdown=markdown)
    converted, escaped = (json.loads(request.body)["message"] for request in receiver.requests)
    assert "<strong>now</strong>" in converted
    assert "**now**" in escaped and "&lt;b&gt;" in escaped


@pytest.fixture
def small_json(monkeypatch: pytest.MonkeyPatch) -> type:
    """A service that takes a hundred characters, as one for short messages does."""
    import apprise

    service = type(apprise.Apprise.instantiate("json://localhost"))
    monkeypatch.setattr(service, "body_maxlen", 100)
    return service


@pytest.mark.usefixtures("small_json")
@pytest.mark.parametrize("markdown", [True, False])
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("message", ["word " * 300, "<&> **x** " * 50, "ten chars " * 9 + "and some more"])
def test_apprise_gets_no_more_than_its_service_takes(
    receiver: Receiver, message: str, form: str, markdown: bool
) -> None:
    outcome = by_apprise(receiver, "json", f"/?format={form}", message=message, markdown=markdown, title="Garden")
    assert told(outcome) == {"channel": "hook", "cut": True}
    [request] = receiver.requests
    body = json.loads(request.body)
    assert len(body["message"]) <= 100
    assert "cut" in body["message"][-20:], "its mark was cut as well, or a tag that was open there"
    assert body["title"] == "Garden"


@pytest.mark.parametrize("changes", [{"title_maxlen": 0}, {"overflow_amalgamate_title": True}])
def test_a_title_that_shares_the_room_is_counted(
    receiver: Receiver, small_json: type, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changes.items():
        monkeypatch.setattr(small_json, name, value)
    assert told(by_apprise(receiver, "json", message="word " * 30, title="Garden"))["cut"] is True
    body = json.loads(receiver.requests[0].body)
    assert len(body["message"]) + len(body["title"]) <= 100
    assert body["message"].endswith(" … (cut)")


def test_a_service_of_few_lines_gets_no_more(
    receiver: Receiver, small_json: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_json, "body_max_line_count", 2)
    assert told(by_apprise(receiver, "json", message="one\ntwo\nthree"))["cut"] is True
    assert json.loads(receiver.requests[0].body)["message"].splitlines() == ["one", "two … (cut)"]


@pytest.mark.usefixtures("small_json")
def test_what_fits_is_not_cut(receiver: Receiver) -> None:
    assert told(by_apprise(receiver, "json", message="x" * 100, title="Garden")) == {"channel": "hook"}
    assert json.loads(receiver.requests[0].body)["message"] == "x" * 100


@pytest.mark.usefixtures("small_json")
@pytest.mark.parametrize(("mode", "parts"), [("split", 3), ("upstream", 1)])
def test_an_operator_may_say_what_becomes_of_long_messages(receiver: Receiver, mode: str, parts: int) -> None:
    assert told(by_apprise(receiver, "json", f"/?overflow={mode}", message="x" * 250)) == {"channel": "hook"}
    assert "".join(json.loads(request.body)["message"] for request in receiver.requests) == "x" * 250
    assert len(receiver.requests) == parts


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({}, "info"),
        ({"priority": 2, "tags": ["tada"]}, "success"),
        ({"priority": 4}, "warning"),
        ({"tags": ["warning"]}, "warning"),
        ({"priority": 5}, "failure"),
        ({"tags": ["rotating_light"], "priority": 3}, "failure"),
    ],
)
def test_how_apprise_colours_it(fields: dict[str, Any], type_: str) -> None:
    assert type_of(fields) == type_


def test_links_are_written_out() -> None:
    assert text_of({"message": "hi"}) == "hi"
    assert text_of({"message": "hi", "attach": "https://a.org/x"}) == "hi\n\nAttachment: https://a.org/x"


WITHOUT_APPRISE = """
import sys
sys.modules["apprise"] = None
from duetime.settings import ChannelSettings
from tests.support.channels import delivery, outgoing
with delivery(channels={"phone": ChannelSettings("tgram://hush/1")}) as made:
    print(made.problems(), made.deliver(outgoing(topic="phone")))
"""


def test_without_the_package_it_is_said_what_to_install() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_APPRISE], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    problem = "channels.phone: its url needs Apprise; install it with: pip install 'duetime[channels]'"
    assert answer.strip() == f"{[problem]} {Failed(problem, permanent=True)}"


@pytest.mark.parametrize("topic", ["hook", "home"])
def test_what_runs_at_most_once_goes_over_a_connection_of_its_own(receiver: Receiver, topic: str) -> None:
    with delivery(NtfyServer(receiver.url), {"hook": ChannelSettings(receiver.url)}) as made:
        for _ in range(2):
            told(made.deliver(outgoing(topic=topic)._replace(once=True)))
    assert [request.nth for request in receiver.requests] == [1, 1]


# -- one channel and the others -----------------------------------------------------------------------------------


def test_a_dead_channel_is_left_alone_and_the_others_are_not() -> None:
    with Receiver(lambda request: Behaviour(503)) as broken, Receiver() as healthy:
        channels = {"broken": ChannelSettings(broken.url), "healthy": ChannelSettings(healthy.url)}
        with delivery(channels=channels) as made:
            for _ in range(5):
                made.deliver(outgoing(topic="broken"))
            left_alone = made.deliver(outgoing(topic="broken"))
            assert isinstance(left_alone, Returned)
            assert left_alone.reason == "channel broken is not answering, so it is left alone for a while"
            assert told(made.deliver(outgoing(topic="healthy")))["channel"] == "healthy"
        assert len(broken.requests) == 5
