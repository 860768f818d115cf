"""`python -m bench.duetime_program REQUEST`: one measurement of Duetime in a process of its own, as for every peer."""

from __future__ import annotations

from bench.burst import fill, measure_burst
from bench.create import measure_bulk, measure_create
from bench.cron import measure_cron
from bench.idle import measure_idle
from bench.lateness import measure_lateness, measure_wake_up
from bench.peers.program import main
from bench.serve import measure_serve

if __name__ == "__main__":
    main(
        {
            "burst": measure_burst,
            "fill": fill,
            "lateness": measure_lateness,
            "wake_up": measure_wake_up,
            "create": measure_create,
            "bulk": measure_bulk,
            "cron": measure_cron,
            "idle": measure_idle,
            "serve": measure_serve,
        }
    )
