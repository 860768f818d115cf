"""Simulate a week in milliseconds: a daily job on a controlled clock, across a clock change and a power cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duetime import Registry, Simulation, instant_of

registry = Registry()


@registry.task
def back_up(folder: str) -> str:
    """Copy a folder."""
    return f"copied {folder}"


def main() -> None:
    with Simulation(datetime(2026, 3, 27, tzinfo=UTC), timezone="Europe/Berlin", registry=registry) as simulation:
        job = simulation.duetime.schedule("back_up", args=["photos"], cron="30 2 * * *")
        print(job.reads_as)

        simulation.advance(timedelta(days=3))  # there is no 02:30 in Berlin on 29 March
        simulation.clock.move_to(instant_of(simulation.now + timedelta(days=3)))  # no worker for three days
        simulation.settle()

        for run in reversed(job.history()):
            others = f" and {run.occurrences - 1} more" if run.occurrences is not None and run.occurrences > 1 else ""
            print(f"{run.due.isoformat()}  {run.status}{others}")


if __name__ == "__main__":
    main()
