"""`python -m tests.clients.conformance`: the protocol's own conformance suite against a real server, in both eras.

Only scenarios that need no fixtures: others ask for tools made for the suite, which no product has. Where a scenario
has single checks of that sort, they are counted apart and shown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.agents import serving
from tests.support.node import Node, NoNode, install

LISTS = ("tools-list", "prompts-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection")
OLDER = ("server-initialize", "ping", *LISTS, "resources-subscribe", "resources-unsubscribe")
NEWER = (*LISTS, "server-stateless", "caching", "http-header-validation", "sep-2164-resource-not-found")


class Round(NamedTuple):
    """The suite's version 0.1.16 is for the older eras; 0.2.0 checks each message against the era's schema too."""

    suite: str
    era: str
    scenarios: tuple[str, ...]


ROUNDS = (
    Round("2025", "2025-11-25", OLDER),
    Round("2026", "2025-11-25", (*OLDER, "server-session-lifecycle")),
    Round("2026", "2026-07-28", NEWER),
)
NEEDS_FIXTURE = "Not testable: server does not list the diagnostic tool"


class Outcome(NamedTuple):
    scenario: str
    passed: int
    failed: list[str]
    needing_fixtures: list[str]
    warnings: list[str]


def main() -> int:
    try:
        node = install()
    except NoNode as reason:
        _say(f"conformance cannot be checked: {reason}")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="duetime-conformance-") as folder,
        serving(Path(folder), "--no-auth", "--no-link") as served,
    ):
        outcomes = list(_play(node, served.url, Path(folder)))
    failed = [outcome for outcome in outcomes if outcome.failed or not outcome.passed]
    checks = sum(outcome.passed for outcome in outcomes)
    _say(f"{len(outcomes) - len(failed)} of {len(outcomes)} scenarios passed, {checks} checks")
    return 1 if failed else 0


def _play(node: Node, url: str, folder: Path) -> Iterator[Outcome]:
    for number, played in enumerate(ROUNDS):
        _say(f"suite {played.suite}, era {played.era}")
        for scenario in played.scenarios:
            outcome = _one(node, url, folder / f"{number}-{scenario}", played, scenario)
            _show(outcome)
            yield outcome


def _one(node: Node, url: str, folder: Path, played: Round, scenario: str) -> Outcome:
    folder.mkdir()
    program = f"node_modules/conformance-{played.suite}/dist/index.js"
    asked = ("--url", url, "--scenario", scenario, "--spec-version", played.era, "-o", str(folder))
    done = node.run(program, "server", *asked, folder=folder)
    found = next(folder.rglob("checks.json"), None)
    if found is None:
        return Outcome(scenario, 0, [(done.stderr or done.stdout).strip()[-300:]], [], [])
    checks: list[dict[str, Any]] = json.loads(found.read_text())
    failures = [check for check in checks if check["status"] == "FAILURE"]
    fixtures = [check["id"] for check in failures if check.get("errorMessage", "").startswith(NEEDS_FIXTURE)]
    return Outcome(
        scenario,
        sum(check["status"] == "SUCCESS" for check in checks),
        [f"{each['id']}: {each.get('errorMessage', '')}" for each in failures if each["id"] not in fixtures],
        fixtures,
        [f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "WARNING"],
    )


def _show(outcome: Outcome) -> None:
    verdict = "FAILED" if outcome.failed or not outcome.passed else "passed"
    _say(f"  {outcome.scenario:<30} {verdict}, {outcome.passed} checks")
    for title, lines in (
        ("failed", outcome.failed),
        ("needs a fixture", outcome.needing_fixtures),
        ("warning", outcome.warnings),
    ):
        for line in lines:
            _say(f"        {title}: {line}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
