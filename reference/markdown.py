"""Markdown that any reader renders: headings, tables, text from code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE = "<!-- Generated from the code by `make reference`. Change the text there. -->"


def page(title: str, *parts: str) -> str:
    """Return the parts separated by an empty line, without the empty ones."""
    return "\n\n".join([f"# {title}", MADE, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or an empty text if there are no rows."""
    body = [_row(row) for row in rows]
    if not body:
        return ""
    return "\n".join([_row(headings), "|" + "---|" * len(headings), *body])


def code(text: object) -> str:
    """Return the text as code, also if it contains backticks."""
    shown = str(text)
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """Return the text as one line, without a bar that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")
