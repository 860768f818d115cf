"""`python -m bench`: every workload for Duetime and, where there are any, for its peers, in one run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

from bench.burst import burst, growth, two_processes
from bench.create import bulk, create, flat
from bench.cron import cron
from bench.idle import idle
from bench.lateness import lateness, wake_up
from bench.lines import Figure, Line
from bench.mcp import mcp
from bench.processes import ROOT, NotMeasured, say
from bench.report import machine, merged, read_json, settings_of, text_table, write_json, write_page
from bench.serve import serve
from bench.sides import SMALL, Bench, Sizes
from bench.stores import STORES, Stores

Workload = Callable[[Bench, str], Iterator[Line]]
WORKLOADS: dict[str, Workload] = {
    "cron": cron,
    "mcp": mcp,
    "burst": burst,
    "two-processes": two_processes,
    "create": create,
    "create-growth": flat,
    "bulk": bulk,
    "lateness": lateness,
    "wake-up": wake_up,
    "serve": serve,
    "growth": growth,
    "idle": idle,
}
WITHOUT_STORE = ("cron", "mcp")


def main() -> int:
    options = _options()
    if options.report:
        return _report_of(options)
    sizes = _sizes(options)
    rounds = options.rounds or (1 if options.quick else 3)
    began = time.monotonic()
    with Stores(sizes.filled) as stores:
        peers = options.peers and not options.quick
        bench = Bench(stores, sizes, rounds, peers, options.search, options.other, not options.quick)
        lines = _together(options, bench) if options.quick else _in_turn(options, bench)
    _report(options, lines, {**machine(), "rounds": rounds})
    say(f"took {time.monotonic() - began:.0f} s")
    return _status(lines)


def _report_of(options: argparse.Namespace) -> int:
    """Report what earlier runs of single workloads wrote as JSON: a whole run takes an hour of a quiet machine."""
    parts = [read_json(path) for path in options.report]
    lines = merged([part for part, _ in parts])
    about = max((about for _, about in parts), key=lambda about: str(about["measured"]))
    fewest = min(len(line.ours.samples) for line in lines if line.ours.samples)
    _report(options, lines, {**about, "rounds": f"at least {fewest}"})
    return _status(lines)


def _chosen_workloads(options: argparse.Namespace, store: str) -> list[str]:
    return [name for name in options.only if (name in WITHOUT_STORE) == (not store)]


def _in_turn(options: argparse.Namespace, bench: Bench) -> list[Line]:
    """Measure one workload after the other. JSON is written in between as well: a whole run takes long."""
    lines: list[Line] = []
    for store in ("", *options.stores):
        for name in _chosen_workloads(options, store):
            lines += _measured(name, bench, store)
            if options.json is not None:
                write_json(options.json, lines, {**machine(), "rounds": bench.rounds})
    return lines


def _together(options: argparse.Namespace, bench: Bench) -> list[Line]:
    """Measure all stores at the same time, which is quicker: what the figures are is not judged."""
    places = ("", *options.stores)
    with ThreadPoolExecutor(len(places)) as threads:
        found = threads.map(
            lambda store: [
                line for name in _chosen_workloads(options, store) for line in _measured(name, bench, store)
            ],
            places,
        )
        return [line for lines in found for line in lines]


def _measured(name: str, bench: Bench, store: str) -> list[Line]:
    """Return the lines of one workload; one that fails gets a line with the reason, and the others go on."""
    try:
        lines = list(WORKLOADS[name](bench, store))
    except (NotMeasured, RuntimeError, OSError) as error:
        say(f"{name} failed: {error}")
        lines = [Line(name, store, "", Figure("Duetime", reason=str(error)))]
    return lines if bench.judged else [replace(line, goal=None) for line in lines]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    parser.add_argument("--only", type=_workloads, default=list(WORKLOADS), help=f"of {','.join(WORKLOADS)}")
    parser.add_argument("--stores", type=_stores, default=list(STORES), help="sqlite,postgres")
    parser.add_argument("--rounds", type=int, default=0, help="of each side; the medians count; 3 unless set")
    parser.add_argument("--quick", action="store_true", help="Duetime alone, every workload small, nothing is judged")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="Duetime alone")
    parser.add_argument("--search", type=float, default=60, help="seconds to search for a peer's best settings")
    parser.add_argument("--other", type=_checkout, help="another checkout, measured beside this one by `serve`")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument(
        "--report", type=Path, nargs="+", help="JSON files of earlier runs to report as one; later ones win"
    )
    parser.add_argument("--docs", type=Path, help="a folder for performance.md, .svg and .json; docs after a whole run")
    for field in fields(Sizes):
        if field.type == "int":
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _workloads(text: str) -> list[str]:
    return _chosen(text, WORKLOADS)


def _stores(text: str) -> list[str]:
    return _chosen(text, STORES)


def _chosen(text: str, known: Sequence[str] | dict[str, Workload]) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
    return [name for name in known if name in names]


def _checkout(text: str) -> Path | None:
    if not text:
        return None
    path = Path(text)
    if not (path / "src" / "duetime").is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no checkout of Duetime: it has no src/duetime")
    return path


def _sizes(options: argparse.Namespace) -> Sizes:
    given = {field.name: getattr(options, field.name, None) for field in fields(Sizes)}
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(SMALL if options.quick else Sizes(), **chosen)


def _report(options: argparse.Namespace, lines: Sequence[Line], about: dict[str, object]) -> None:
    print(text_table(lines))
    print("\nSettings and durability:")
    for each in settings_of(lines):
        print(f"  {each}")
    if options.json is not None:
        write_json(options.json, lines, about)
    whole = not options.quick and options.peers and len(options.only) == len(WORKLOADS) and len(options.stores) == 2
    folder = options.docs or (ROOT / "docs" if whole else None)
    if folder is not None:
        write_page(folder, lines, about)


def _status(lines: Sequence[Line]) -> int:
    """Return 1 if Duetime could not be measured or misses a bar."""
    failed = [line for line in lines if line.ours.median is None]
    missed = [line for line in lines if line.verdict == "BAR MISSED"]
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
