"""`duetime emit`: sends an event once per key, and says if nothing waits for it."""

from __future__ import annotations

from tests.support.cli import Cli


def test_an_event_is_sent_once_per_key(cli: Cli) -> None:
    assert cli("job", "add", "announce", "--task", "echo", "--arg", "{version}", "--when", "on deploy.done").code == 0
    first = cli("emit", "deploy.done", "--data", '{"version": 5}', "--key", "five")
    assert (first.code, first.out.strip()) == (0, "Sent event 1.\nIt starts: announce.")
    assert cli("emit", "deploy.done", "--key", "five").out.strip() == "Event 1 was sent before."
    assert cli("emit", "deploy.done", "--json").document["duplicate"] is False


def test_waiting_for_the_runs(cli: Cli) -> None:
    cli("job", "add", "announce", "--task", "echo", "--when", "on deploy.done")
    sent = cli("emit", "deploy.done", "--wait", "0.1")
    assert (sent.code, sent.out.splitlines()[-1]) == (6, "Not over after 0.1 s: no worker is running.")
    document = cli("emit", "deploy.done", "--wait", "0.1", "--json").document
    assert (document["runs"], document["ended"], document["reason"]) == ([], False, "no worker is running")
    assert document["notes"] == ["It starts: announce."]
    assert cli("emit", "nobody", "--wait", "60").code == 0, "nothing is to come"


def test_a_name_that_nothing_waits_for_and_what_is_refused(cli: Cli) -> None:
    lonely = cli("emit", "nobody", "--data", "plain text")
    assert lonely.code == 0
    assert "No schedule listens to nobody" in lonely.err
    assert cli("emit", "~ended.1").code == 2
    broken = cli("emit", "x", "--data", '{"a": ')
    assert (broken.code, "is not valid JSON" in broken.err) == (2, True)
