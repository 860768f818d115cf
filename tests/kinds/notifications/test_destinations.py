"""Where notifications go, as people and agents are told: the inbox, the doctor, a server that starts, and warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from duetime.app import build
from duetime.kinds.notifications.kind import NotificationKind
from duetime.net.client import Http, HttpAnswer
from duetime.settings import ChannelSettings, NotificationSettings, Settings
from tests.support.cli import Cli, environment, start
from tests.support.deliveries import delivering, notify, settled
from tests.support.ntfy import NtfyReceiver
from tests.support.settings import write_trusted

BROKEN = """
[notifications]
server = "https://ntfy.example.org/hush"
token = "tk_hush"

[channels.phone]
url = "tgram://hush"

[channels.hook]
url = "https://example.org/hush"
headers = { Authorization = "Bearer hush" }
"""


def test_the_inbox_shows_where_a_message_went(cli: Cli, tmp_path: Path) -> None:
    with NtfyReceiver() as ntfy, delivering(tmp_path, ntfy.url) as app:
        [sent, kept] = notify(app, ["home", "inbox"], title="T")
        settled(app, 2)
    shown = cli("inbox", "--db", "due.db").out
    assert "[home via ntfy, n1]  T: number 0\n" in shown
    assert "[inbox, n2]  T: number 1\n" in shown
    messages = {each["id"]: each for each in cli("inbox", "--db", "due.db", "--json").document["messages"]}
    assert (messages[sent]["channel"], messages[sent]["receipt"]) == ("ntfy", "own-1")
    assert (messages[kept]["channel"], messages[kept]["receipt"]) == ("inbox", None)


def test_the_doctor_finds_what_cannot_be_used_and_shows_no_address(cli: Cli, tmp_path: Path) -> None:
    write_trusted(tmp_path, BROKEN)
    answer = cli("doctor", "--json")
    assert answer.code == 1
    found = [check["message"] for check in answer.document["checks"] if check["subject"] == "delivery"]
    assert [problem.split(":")[0] for problem in found] == ["channels.phone", "notifications.server"]
    assert "hush" not in answer.out


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "notifications go to the built-in inbox; set notifications.server or a channel to reach a phone"),
        ('[notifications]\nserver = "https://ntfy.sh"', "topics go to the ntfy server https://ntfy.sh, which answers"),
        ('[channels.phone]\nurl = "https://a.org/hush"', "other topics go to the built-in inbox"),
        (
            '[notifications]\nserver = "https://ntfy.sh"\n[channels.phone]\nurl = "https://a.org/hush"',
            "topics go to the ntfy server https://ntfy.sh, which answers",
        ),
    ],
)
def test_the_doctor_says_where_notifications_go(
    cli: Cli, tmp_path: Path, settings: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Http, "send", lambda *_: HttpAnswer(200, {}, b"", False))
    write_trusted(tmp_path, settings)
    answer = cli("doctor", "--json")
    checks = [check for check in answer.document["checks"] if check["subject"] == "delivery"]
    *channels, last = checks
    assert last == {"status": "ok", "subject": "delivery", "message": said}
    assert [each["message"] for each in channels] == ["the channel phone: https://a.org answers"] * (
        "phone" in settings
    )


PHONE_FIRST = '[channels.phone]\nurl = "https://a.org/hush"\n[notifications]\n'


@pytest.mark.parametrize(
    ("settings", "status", "said"),
    [
        (
            PHONE_FIRST,
            "warn",
            "stay in the built-in inbox; to send them to phone: duetime config set notifications.alerts phone",
        ),
        (f'{PHONE_FIRST}alerts = "phnoe"', "warn", "stay in the built-in inbox"),
        (f'{PHONE_FIRST}alerts = "phone"', "ok", "alerts go to phone"),
        (f'{PHONE_FIRST}topic = "phone"', "ok", "alerts go to phone"),
        (f'{PHONE_FIRST}topic = "phone"\nalerts = "inbox"', "ok", "alerts go to the built-in inbox"),
        (f'{PHONE_FIRST}alerts = "inbox"', "ok", "alerts go to the built-in inbox"),
        (f'{PHONE_FIRST}server = "https://ntfy.sh"', "ok", "go to the topic duetime-alerts of the ntfy server"),
    ],
)
def test_the_doctor_says_where_alerts_go(
    cli: Cli, tmp_path: Path, settings: str, status: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever set up a channel alone would hear of everything but of what went wrong."""
    monkeypatch.setattr(Http, "send", lambda *_: HttpAnswer(200, {}, b"", False))
    write_trusted(tmp_path, settings)
    [check] = [check for check in cli("doctor", "--json").document["checks"] if check["subject"] == "alerts"]
    assert check["status"] == status and said in check["message"]


@pytest.mark.later
def test_a_server_that_starts_says_what_cannot_be_used(tmp_path: Path) -> None:
    assert not [name for name in environment() if name.startswith("DUETIME_")]
    write_trusted(tmp_path, BROKEN)
    process = start("serve", "--port", "0", "--no-link", "--db", "my.db", folder=tmp_path)
    assert process.stderr is not None
    try:
        said = [process.stderr.readline(), process.stderr.readline()]
    finally:
        process.terminate()
        out, rest = process.communicate(timeout=30)
    assert "channels.phone: Apprise does not understand its url" in said[0]
    assert "notifications.server: give the server alone, https://ntfy.example.org" in said[1]
    assert "hush" not in "".join([out, *said, rest])


SERVER = NotificationSettings(server="https://ntfy.example.org")
PHONE = {"phone": ChannelSettings("https://example.org/hush")}


@pytest.mark.parametrize(
    ("server", "channels", "topic", "said"),
    [
        (NotificationSettings(), {}, "home", "No notification channel is set up"),
        (NotificationSettings(), {}, "inbox", "No notification channel is set up"),
        (NotificationSettings(), PHONE, "inbox", ""),
        (NotificationSettings(), PHONE, "phone", ""),
        (NotificationSettings(), PHONE, "home", "No channel is named home"),
        (SERVER, {}, "home", "Nothing else uses the topic home"),
        (SERVER, PHONE, "home", "Nothing else uses the topic home"),
        (SERVER, PHONE, "phone", ""),
    ],
)
def test_whoever_makes_a_notification_is_warned_where_it_reaches_no_phone(
    server: NotificationSettings, channels: dict[str, ChannelSettings], topic: str, said: str
) -> None:
    app = build(Settings(db=":memory:", timezone="UTC", notifications=server, channels=channels), tasks=False)
    warnings = app.services.kind(NotificationKind).service.warnings(topic)
    app.close()
    assert [warning.text[: len(said)] for warning in warnings] == ([said] if said else [])
    assert "hush" not in str(warnings)
    if "named home" in said:
        assert "configured channels: phone." in warnings[0].text
