"""The part of the scripted agent that answers the questions about managing schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.scripted import Hands

REPORT, QUEUE, PULLS, STANDUP = "nightly report", "queue check", "pull requests", "standup"


def _edited(hands: Hands, id: str, /, **changes: Any) -> dict[str, Any]:
    return hands.data("edit_schedule", {"schedule_id": id, **changes})


def _many(hands: Hands, action: str, **given: Any) -> str:
    done = hands.data("change_schedules", {"action": action, **given})
    return str(done["matched" if given.get("dry_run") else "changed"])


def _jobs(hands: Hands, status: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hands.data("list_jobs", {"status": status})["jobs"]
    return found


def _ran(hands: Hands, name: str) -> dict[str, Any]:
    run: dict[str, Any] = hands.data("run_now", {"schedule_id": name, "wait_seconds": 30})["run"]
    return run


def _failed(hands: Hands, **more: Any) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = hands.data("history", {"status": "failed", "from": "24 hours ago", **more})["runs"]
    return runs


def _upcoming(hands: Hands, **given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hands.data("list_upcoming", {"count": 100, **given})["upcoming"]
    return found


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def new_time(hands: Hands) -> str:
    return str(_edited(hands, REPORT, when="every day at 3:30", start="2031-01-01")["next_run"])[11:16]


def renamed(hands: Hands) -> str:
    return str(_edited(hands, QUEUE, name="queue watch")["kind"])


def new_instructions(hands: Hands) -> str:
    return _minute(_edited(hands, PULLS, prompt="Summarise the open pull requests and issues")["next_run"])


def an_hour_later(hands: Hands) -> str:
    return _minute(_edited(hands, "dentist", at="2031-03-03 11:00")["next_run"])


def new_topic(hands: Hands) -> str:
    _edited(hands, STANDUP, notification_topic="team-room")
    found = hands.data("list_scheduled_notifications", {"notification_topic": "team-standup"})
    return str(found["count"] + len(found["messages"]))


def five_runs(hands: Hands) -> str:
    _edited(hands, REPORT, max_runs=5)
    return str(hands.data("job_status", {"job_id": REPORT})["max_runs"])


def two_changes(hands: Hands) -> str:
    before = hands.data("job_status", {"job_id": REPORT})["next_run"]
    after = _edited(hands, REPORT, max_attempts=3, name="report")["next_run"]
    return "Yes" if before == after else f"No: {before} and {after}"


def weekdays(hands: Hands) -> str:
    return str(_edited(hands, QUEUE, when="every weekday at 10:00", start="2031-01-01")["next_run"])[:10]


def from_february(hands: Hands) -> str:
    return str(_edited(hands, REPORT, when="every day at 4:00", starting="2031-02-01")["next_run"])[11:16]


def next_alone(hands: Hands) -> str:
    _edited(hands, PULLS, at="2031-01-01 10:00")
    [row] = _upcoming(hands, **{"from": "2031-01-02", "until": "2031-01-02", "kind": "prompt"})
    return str(row["at"])[11:16]


def unknown_task(hands: Hands) -> str:
    return "No" if "error" in _edited(hands, REPORT, task="send_mail") else "Yes"


def paused_until(hands: Hands) -> str:
    hands.data("pause_schedule", {"schedule_id": QUEUE, "until": "2031-03-03 09:00"})
    return str(hands.data("job_status", {"job_id": QUEUE})["status"])


def paused_with_a_note(hands: Hands) -> str:
    hands.data("pause_schedule", {"schedule_id": PULLS, "note": "holiday"})
    return "Yes" if hands.data("schedule_list", {})["total"] else "No"


def topic_paused(hands: Hands) -> str:
    return _many(hands, "pause", topic="team-standup")


def all_paused(hands: Hands) -> str:
    return _many(hands, "pause", all=True, until="2031-05-01 08:00")


def how_many_paused(hands: Hands) -> str:
    return str(len(_jobs(hands, "paused")))


def why_paused(hands: Hands) -> str:
    return next(str(job["note"]) for job in _jobs(hands, "paused") if job["name"] == REPORT)


def how_long_paused(hands: Hands) -> str:
    return _minute(next(job["paused_until"] for job in _jobs(hands, "paused") if job["name"] == QUEUE))


def resumed(hands: Hands) -> str:
    return _minute(hands.data("resume_schedule", {"schedule_id": REPORT})["next_run"])


def jobs_resumed(hands: Hands) -> str:
    return _many(hands, "resume", kind="job")


def deleted(hands: Hands) -> str:
    hands.data("delete_schedule", {"schedule_id": "retro"})
    return str(hands.data("list_scheduled_notifications", {})["count"])


def would_delete(hands: Hands) -> str:
    return _many(hands, "delete", kind="notification", dry_run=True)


def topic_deleted(hands: Hands) -> str:
    return _many(hands, "delete", topic="team-standup", expected_count=2)


def job_cancelled(hands: Hands) -> str:
    hands.data("cancel_job", {"job_id": QUEUE})
    return str(hands.data("job_status", {"job_id": QUEUE})["status"])


def prompt_cancelled(hands: Hands) -> str:
    hands.data("schedule_cancel", {"id": PULLS})
    return str(hands.data("schedule_list", {})["total"])


def nothing_to_delete(hands: Hands) -> str:
    return "Yes" if hands.data("delete_schedule", {"schedule_id": "weekly review"})["success"] else "No"


def result_now(hands: Hands) -> str:
    return str(_ran(hands, REPORT)["result"])


def sent_now(hands: Hands) -> str:
    return str(_ran(hands, STANDUP)["status"])


def tried_again(hands: Hands) -> str:
    return "Yes" if _ran(hands, "invoice import")["status"] == "completed" else "No"


def how_many_failed(hands: Hands) -> str:
    return str(len(_failed(hands)))


def dismissed(hands: Hands) -> str:
    [run] = _failed(hands, schedule_id="invoice import")
    return str(hands.data("mark_runs", {"run_ids": [run["run_id"]], "mark": "dismiss"})["marked"])


def why_the_import_failed(hands: Hands) -> str:
    return str(_failed(hands, schedule_id="invoice import")[0]["error"])


def why_the_prompt_failed(hands: Hands) -> str:
    return str(_failed(hands, kind="prompt")[0]["error"])


def which_was_deleted(hands: Hands) -> str:
    jobs = {job["name"] for job in hands.data("list_jobs", {})["jobs"]}
    return next(str(run["name"]) for run in _failed(hands, kind="job") if run["name"] not in jobs)


def what_it_returned(hands: Hands) -> str:
    return str(hands.data("history", {"schedule_id": "disk check"})["runs"][0]["result"])


def in_hands(hands: Hands) -> str:
    return str(len(hands.data("history", {"status": "live", "kind": "prompt"})["runs"]))


def stopped(hands: Hands) -> str:
    hands.data("schedule_cancel", {"id": "newsletter", "stop_running": True})
    [row] = hands.data("schedule_list", {"status": "cancelled"})["tasks"]
    return str(row["status"])


def recurring_stopped(hands: Hands) -> str:
    hands.data("schedule_cancel", {"id": "build watch", "stop_running": True})
    return in_hands(hands)


def run_stopped(hands: Hands) -> str:
    return str(hands.data("stop_run", {"schedule_id": "build watch"})["next_run"])[:10]


def kinds(hands: Hands) -> str:
    found = hands.data("list_scheduled_notifications", {})
    notifications = found["count"] + len(found["messages"])
    return f"{len(_jobs(hands, 'pending'))}/{hands.data('schedule_list', {})['total']}/{notifications}"


def on_a_day(hands: Hands) -> str:
    return str(len(_upcoming(hands, **{"from": "2031-01-03", "until": "2031-01-03", "kind": "notification"})))


def topics(hands: Hands) -> str:
    return ", ".join(sorted(hands.data("status", {})["topics"]))


SCRIPTS: dict[str, Callable[[Hands], str]] = {
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
