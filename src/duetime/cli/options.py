"""Options of the commands that serve agents."""

from __future__ import annotations

from typing import Annotated

import typer

Tools = Annotated[
    str | None,
    typer.Option("--tools", metavar="FAMILIES", help="Which tools: jobs,prompts,notifications; otherwise all."),
]
