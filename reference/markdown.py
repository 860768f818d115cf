"""Markdown that any reader renders: headings, tables, words from code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE = "<!-- Made by `make reference` from the code. Change the words there. -->"


def page(title: str, *parts: str) -> str:
    """Parts are separated by an empty line; empty ones are left out."""
    return "\n\n".join([f"# {title}", MADE, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Nothing where there are no rows."""
    body = [_row(row) for row in rows]
    if not body:
        return ""
    return "\n".join([_row(headings), "|" + "---|" * len(headings), *body])


def code(text: object) -> str:
    """As it stands, also where it holds backticks."""
    shown = str(text)
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """One line, and no bar that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")
