"""What cannot be restored is refused with the reason, and who may restore; copies of the store, and lists of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import START, Api, serving_api
from tests.support.cli import Cli
from tests.support.stage import Stage

SOON = {"type": "once", "run_at": (START + timedelta(hours=1)).isoformat()}


def removed(api: Api, **job: Any) -> str:
    """Return the id of a job that was deleted."""
    client = api.client()
    id = str(client.job(**job)["id"])
    assert client.ask("DELETE", f"/schedules/{id}").status_code == 204
    return id


def reason(api: Api, id: str, status: int = 409) -> str:
    """Return why a schedule cannot be restored: the same alone and among others."""
    detail = str(api.client().refused("POST", f"/schedules/{id}/restore", status)["detail"])
    many = api.client().post("/schedules/change", {"action": "restore", "ids": [id]})
    assert (many["changed"], [each["error"] for each in many["failed"]]) == (0, [detail])
    return detail


def test_the_reasons(api: Api) -> None:
    past = removed(api, trigger=SOON)
    forever = str(api.client().job()["id"])
    assert api.client().ask("DELETE", f"/schedules/{forever}", params={"forever": True}).status_code == 204
    taken = removed(api, idempotency_key="plants")
    api.client().job(idempotency_key="plants")
    old = removed(api)
    api.pass_time(hours=2)
    assert "its time has passed" in reason(api, past)
    assert "create it again" in reason(api, forever)
    assert "another schedule has its key" in reason(api, taken)
    api.pass_time(hours=22)
    assert "kept for a day" in reason(api, old)
    living = api.client().job()["id"]
    assert "active" in reason(api, living)


def test_a_full_quota_is_the_reason(tmp_path: Path) -> None:
    with serving_api(tmp_path, max_schedules=2) as api:
        deleted, cancelled = removed(api), str(api.client().job()["id"])
        api.client().post(f"/schedules/{cancelled}/cancel")
        api.client().job()
        assert api.client().post(f"/schedules/{deleted}/restore")["status"] == "pending"
        assert "limit of 2 schedules" in reason(api, cancelled, 403)
        assert api.client().ask("DELETE", f"/schedules/{deleted}").status_code == 204
        assert api.client().post(f"/schedules/{cancelled}/restore")["status"] == "pending"
        assert "limit of 2 schedules" in reason(api, deleted, 403)


def test_a_dry_run_says_what_would_fail(api: Api) -> None:
    past, fine = removed(api, trigger=SOON), removed(api)
    api.pass_time(hours=2)
    answer = api.client().post("/schedules/change", {"action": "restore", "ids": [past, fine], "dry_run": True})
    assert [each["id"] for each in answer["failed"]] == [past]
    assert "its time has passed" in answer["failed"][0]["error"]
    assert api.client().refused("GET", f"/schedules/{fine}", 404)


def test_others_cannot_restore_what_is_not_theirs(api: Api) -> None:
    id = removed(api)
    api.client("bob").refused("POST", f"/schedules/{id}/restore", 404)
    api.client("bob").refused("DELETE", f"/schedules/{id}", 404, params={"forever": True})
    api.client("ada", "read").refused("POST", f"/schedules/{id}/restore", 403)
    assert api.client().post(f"/schedules/{id}/restore")["id"] == id


def test_a_token_for_another_kind_sees_nothing_that_is_deleted(api: Api) -> None:
    id, other = removed(api, name="secret project"), api.client("ada", "read", "write", "delete", "kind:notification")
    answer = other.post("/schedules/change", {"action": "restore", "all": True, "dry_run": True})
    assert (answer["matched"], answer["schedules"], answer["failed"]) == (0, [], [])
    for reference in (id, "secret project"):
        other.refused("POST", f"/schedules/{reference}/restore", 404)


def test_many_are_not_restored_by_a_status_that_they_do_not_have(api: Api) -> None:
    removed(api)
    for status in ("paused", "cancelled", "nonsense"):
        body = {"action": "restore", "status": status}
        assert "leave it out" in api.client().ask("POST", "/schedules/change", json=body).json()["detail"]
    assert api.client().post("/schedules/change", {"action": "restore", "all": True})["changed"] == 1


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_runs_of_agents_may_not_restore(stage: Stage, how: str) -> None:
    id = stage.ada.knows("schedule_job", name="plants", task="echo", when="every hour")["job_id"]
    stage.ada.knows("change_schedules", action=how, ids=[id], expected_count=1)
    run = stage.agent("ada", depth=1)
    for given in ({"ids": [id]}, {"kind": "job"}, {"all": True}, {"ids": [id], "dry_run": True}):
        answer = str(run.use("change_schedules", action="restore", **given))
        assert "ask a person" in answer
    assert stage.ada.knows("change_schedules", action="restore", ids=[id])["changed"] == 1


# -- copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_keeps_what_can_be_restored_and_what_is_open(tmp_path: Path) -> None:
    with serving_api(tmp_path, url=str(tmp_path / "my.db")) as api:
        id = removed(api, payload={"task": "echo", "args": ["canary"]})
        api.client().job(payload={"task": "fail"})
        api.pass_time(hours=1)
        api.room.store.backup(str(tmp_path / "copy.db"))
    with serving_api(tmp_path, url=str(tmp_path / "copy.db")) as copy:
        assert copy.client().post(f"/schedules/{id}/restore")["payload"]["args"] == ["canary"]
        assert [each["name"] for each in copy.client().get("/status")["problems"]] == ["water the plants"]
        copy.pass_time(hours=1, minutes=30)
        assert copy.simulation.tell() == 1, "whoever continues with the copy tells"


def test_an_export_has_nothing_of_what_is_deleted_and_an_import_brings_none_back(cli: Cli, tmp_path: Path) -> None:
    cli("job", "add", "secret", "--task", "echo", "--arg", "canary", "--every", "1h", "--key", "plants")
    cli("job", "add", "other", "--task", "echo", "--every", "1h")
    before = cli("export", "-o", "before.jsonl")
    assert before.code == 0 and "canary" in (tmp_path / "before.jsonl").read_text()
    assert cli("job", "delete", "secret", "--yes").code == 0
    assert cli("export", "-o", "after.jsonl").code == 0
    exported = (tmp_path / "after.jsonl").read_text()
    assert "canary" not in exported and "secret" not in exported and "other" in exported
    assert cli("import", "jsonl", "after.jsonl", "--yes").code == 0
    assert [each["name"] for each in cli("job", "list", "--json").document["jobs"]] == ["other"]
    assert cli("import", "jsonl", "before.jsonl", "--yes").code == 0
    refused = cli("job", "restore", "secret")
    assert (refused.code, "another schedule has its key" in refused.err) == (4, True)
    assert cli("job", "delete", "secret", "--yes", "--forever").code == 0
    assert "canary" not in cli("job", "list", "--all", "--json").out
    assert cli("job", "restore", "secret").code == 0, "the one that was deleted first has its key again"
    assert "canary" in cli("job", "show", "secret").out
