"""`python -m bench.paint`: how soon Chromium paints each page of the dashboard, and what is sent for it.

Both servers are asked in turn, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.support.chromium import chromium
from tests.support.page_costs import BOUND, FEW, MANY, OTHER_PAGES, PAGES, PATIENCE, dashboard


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.paint", description=__doc__)
    parser.add_argument("--few", type=int, default=FEW, help="schedules in the smaller store")
    parser.add_argument("--many", type=int, default=MANY, help="schedules in the larger store")
    parser.add_argument("--loads", type=int, default=7, help="loads of each page, of which the median counts")
    parser.add_argument("--pages", nargs="*", default=(*PAGES, *OTHER_PAGES), help="only these, such as /timeline")
    given = parser.parse_args(arguments)
    print(f"{'page':<26}{'first paint, ms':>18}{'times':>7}{'bytes sent':>20}{'times':>7}")
    print(f"{'':<26}{given.few:>9,}{given.many:>9,}{'':>7}{given.few:>10,}{given.many:>10,}")
    missed = 0
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        servers = [stack.enter_context(dashboard(Path(scratch), count)) for count in (given.few, given.many)]
        browser = stack.enter_context(chromium())
        pages = [server.sign_in(browser) for server in servers]
        for path in given.pages:
            loads = [
                [server.paint(page, path) for server, page in zip(servers, pages, strict=True)]
                for _ in range(given.loads + 1)
            ][1:]  # templates are compiled at the first one
            few, many = (median(each) for each in zip(*loads, strict=True))
            small, large = (server.ask(path).size for server in servers)
            kept = many <= min(PATIENCE, BOUND * few) and large <= BOUND * small
            missed += not kept
            print(
                f"{path:<26}{few * 1000:>9.0f}{many * 1000:>9.0f}{many / few:>7.2f}{small:>10,}{large:>10,}"
                f"{large / small:>7.2f}{'' if kept else '  missed'}",
                flush=True,
            )
    print(f"Goal: painted within {PATIENCE * 1000:.0f} ms, and both within {BOUND:g} times; missed by {missed} pages.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
