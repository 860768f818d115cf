"""The part of the scripted agent that answers the questions about managing schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.scripted import Toolbox

REPORT, QUEUE, PULLS, STANDUP = "nightly report", "queue check", "pull requests", "standup"


def _edited(toolbox: Toolbox, id: str, /, **changes: Any) -> dict[str, Any]:
    return toolbox.data("edit_schedule", {"schedule_id": id, **changes})


def _many(toolbox: Toolbox, action: str, **given: Any) -> str:
    done = toolbox.data("change_schedules", {"action": action, **given})
    return str(done["matched" if given.get("dry_run") else "changed"])


def _jobs(toolbox: Toolbox, status: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = toolbox.data("list_jobs", {"status": status})["jobs"]
    return found


def _ran(toolbox: Toolbox, name: str) -> dict[str, Any]:
    run: dict[str, Any] = toolbox.data("run_now", {"schedule_id": name, "wait_seconds": 30})["run"]
    return run


def _failed(toolbox: Toolbox, **more: Any) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = toolbox.data("history", {"status": "failed", "from": "24 hours ago", **more})["runs"]
    return runs


def _upcoming(toolbox: Toolbox, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = toolbox.data("list_upcoming", {"count": 100, **given})["upcoming"]
    return found


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def new_time(toolbox: Toolbox) -> str:
    return str(_edited(toolbox, REPORT, when="every day at 3:30", start="2031-01-01")["next_run"])[11:16]


def renamed(toolbox: Toolbox) -> str:
    return str(_edited(toolbox, QUEUE, name="queue watch")["kind"])


def new_instructions(toolbox: Toolbox) -> str:
    return _minute(_edited(toolbox, PULLS, prompt="Summarise the open pull requests and issues")["next_run"])


def an_hour_later(toolbox: Toolbox) -> str:
    return _minute(_edited(toolbox, "dentist", at="2031-03-03 11:00")["next_run"])


def new_topic(toolbox: Toolbox) -> str:
    _edited(toolbox, STANDUP, notification_topic="team-room")
    found = toolbox.data("list_scheduled_notifications", {"notification_topic": "team-standup"})
    return str(found["count"] + len(found["messages"]))


def five_runs(toolbox: Toolbox) -> str:
    _edited(toolbox, REPORT, max_runs=5)
    return str(toolbox.data("job_status", {"job_id": REPORT})["max_runs"])


def two_changes(toolbox: Toolbox) -> str:
    before = toolbox.data("job_status", {"job_id": REPORT})["next_run"]
    after = _edited(toolbox, REPORT, max_attempts=3, name="report")["next_run"]
    return "Yes" if before == after else f"No: {before} and {after}"


def weekdays(toolbox: Toolbox) -> str:
    return str(_edited(toolbox, QUEUE, when="every weekday at 10:00", start="2031-01-01")["next_run"])[:10]


def from_february(toolbox: Toolbox) -> str:
    return str(_edited(toolbox, REPORT, when="every day at 4:00", starting="2031-02-01")["next_run"])[11:16]


def next_alone(toolbox: Toolbox) -> str:
    _edited(toolbox, PULLS, at="2031-01-01 10:00")
    [row] = _upcoming(toolbox, **{"from": "2031-01-02", "until": "2031-01-02", "kind": "prompt"})
    return str(row["at"])[11:16]


def unknown_task(toolbox: Toolbox) -> str:
    return "No" if "error" in _edited(toolbox, REPORT, task="send_mail") else "Yes"


def paused_until(toolbox: Toolbox) -> str:
    toolbox.data("pause_schedule", {"schedule_id": QUEUE, "until": "2031-03-03 09:00"})
    return str(toolbox.data("job_status", {"job_id": QUEUE})["status"])


def paused_with_a_note(toolbox: Toolbox) -> str:
    toolbox.data("pause_schedule", {"schedule_id": PULLS, "note": "holiday"})
    return "Yes" if toolbox.data("schedule_list", {})["total"] else "No"


def topic_paused(toolbox: Toolbox) -> str:
    return _many(toolbox, "pause", topic="team-standup")


def all_paused(toolbox: Toolbox) -> str:
    return _many(toolbox, "pause", all=True, until="2031-05-01 08:00")


def how_many_paused(toolbox: Toolbox) -> str:
    return str(len(_jobs(toolbox, "paused")))


def why_paused(toolbox: Toolbox) -> str:
    return next(str(job["note"]) for job in _jobs(toolbox, "paused") if job["name"] == REPORT)


def how_long_paused(toolbox: Toolbox) -> str:
    return _minute(next(job["paused_until"] for job in _jobs(toolbox, "paused") if job["name"] == QUEUE))


def resumed(toolbox: Toolbox) -> str:
    return _minute(toolbox.data("resume_schedule", {"schedule_id": REPORT})["next_run"])


def jobs_resumed(toolbox: Toolbox) -> str:
    return _many(toolbox, "resume", kind="job")


def deleted(toolbox: Toolbox) -> str:
    toolbox.data("delete_schedule", {"schedule_id": "retro"})
    return str(toolbox.data("list_scheduled_notifications", {})["count"])


def would_delete(toolbox: Toolbox) -> str:
    return _many(toolbox, "delete", kind="notification", dry_run=True)


def topic_deleted(toolbox: Toolbox) -> str:
    return _many(toolbox, "delete", topic="team-standup", expected_count=2)


def job_cancelled(toolbox: Toolbox) -> str:
    toolbox.data("cancel_job", {"job_id": QUEUE})
    return str(toolbox.data("job_status", {"job_id": QUEUE})["status"])


def prompt_cancelled(toolbox: Toolbox) -> str:
    toolbox.data("schedule_cancel", {"id": PULLS})
    return str(toolbox.data("schedule_list", {})["total"])


def nothing_to_delete(toolbox: Toolbox) -> str:
    return "Yes" if toolbox.data("delete_schedule", {"schedule_id": "weekly review"})["success"] else "No"


def result_now(toolbox: Toolbox) -> str:
    return str(_ran(toolbox, REPORT)["result"])


def sent_now(toolbox: Toolbox) -> str:
    return str(_ran(toolbox, STANDUP)["status"])


def tried_again(toolbox: Toolbox) -> str:
    return "Yes" if _ran(toolbox, "invoice import")["status"] == "completed" else "No"


def how_many_failed(toolbox: Toolbox) -> str:
    return str(len(_failed(toolbox)))


def dismissed(toolbox: Toolbox) -> str:
    [run] = _failed(toolbox, schedule_id="invoice import")
    return str(toolbox.data("mark_runs", {"run_ids": [run["run_id"]], "mark": "dismiss"})["marked"])


def why_the_import_failed(toolbox: Toolbox) -> str:
    return str(_failed(toolbox, schedule_id="invoice import")[0]["error"])


def why_the_prompt_failed(toolbox: Toolbox) -> str:
    return str(_failed(toolbox, kind="prompt")[0]["error"])


def which_was_deleted(toolbox: Toolbox) -> str:
    jobs = {job["name"] for job in toolbox.data("list_jobs", {})["jobs"]}
    return next(str(run["name"]) for run in _failed(toolbox, kind="job") if run["name"] not in jobs)


def what_it_returned(toolbox: Toolbox) -> str:
    return str(toolbox.data("history", {"schedule_id": "disk check"})["runs"][0]["result"])


def in_hands(toolbox: Toolbox) -> str:
    return str(len(toolbox.data("history", {"status": "live", "kind": "prompt"})["runs"]))


def stopped(toolbox: Toolbox) -> str:
    toolbox.data("schedule_cancel", {"id": "newsletter", "stop_running": True})
    [row] = toolbox.data("schedule_list", {"status": "cancelled"})["tasks"]
    return str(row["status"])


def recurring_stopped(toolbox: Toolbox) -> str:
    toolbox.data("schedule_cancel", {"id": "build watch", "stop_running": True})
    return in_hands(toolbox)


def run_stopped(toolbox: Toolbox) -> str:
    return str(toolbox.data("stop_run", {"schedule_id": "build watch"})["next_run"])[:10]


def kinds(toolbox: Toolbox) -> str:
    found = toolbox.data("list_scheduled_notifications", {})
    notifications = found["count"] + len(found["messages"])
    return f"{len(_jobs(toolbox, 'pending'))}/{toolbox.data('schedule_list', {})['total']}/{notifications}"


def on_a_day(toolbox: Toolbox) -> str:
    return str(len(_upcoming(toolbox, **{"from": "2031-01-03", "until": "2031-01-03", "kind": "notification"})))


def topics(toolbox: Toolbox) -> str:
    return ", ".join(sorted(toolbox.data("status", {})["topics"]))


SCRIPTS: dict[str, Callable[[Toolbox], str]] = {
    "every night at 03:30": new_time,
    "queue watch": renamed,
    "pull requests and issues": new_instructions,
    "The dentist called": an_hour_later,
    "team-room": new_topic,
    "after five runs in all": five_runs,
    "up to three times": two_changes,
    "every weekday at 10:00": weekdays,
    "From 1 February 2031": from_february,
    "Move only the next occurrence": next_alone,
    "send_mail": unknown_task,
    'Pause the job "queue check"': paused_until,
    '"holiday"': paused_with_a_note,
    "Pause everything": topic_paused,
    "Pause all schedules": all_paused,
    "How many jobs are paused": how_many_paused,
    'Why is the job "nightly report" paused': why_paused,
    "Until when is the job": how_long_paused,
    "The database was moved": resumed,
    "Resume all jobs": jobs_resumed,
    'Delete the notification "retro"': deleted,
    "would be deleted": would_delete,
    "Delete everything": topic_deleted,
    'Cancel the job "queue check"': job_cancelled,
    'Cancel the prompt "pull requests"': prompt_cancelled,
    "weekly review": nothing_to_delete,
    "besides its regular times": result_now,
    "once right now": sent_now,
    "Try the job": tried_again,
    "in the last day": how_many_failed,
    "With which error": why_the_import_failed,
    "has been dealt with": dismissed,
    "A prompt has failed": why_the_prompt_failed,
    "has been deleted since": which_was_deleted,
    "latest run of": what_it_returned,
    "in the hands of an agent at the moment": in_hands,
    '"newsletter"': stopped,
    "but let the prompt go on": run_stopped,
    "Cancel the recurring prompt": recurring_stopped,
    "are set up": kinds,
    "on 3 January 2031": on_a_day,
    "To which topics": topics,
}
"""Keyed by words that only one question contains."""
