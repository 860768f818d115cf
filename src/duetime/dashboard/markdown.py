"""Renders Markdown that agents wrote: no HTML, no images, and links only to the web and to mail addresses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duetime.dashboard.filters import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST: Final = 8_000
"""Characters of a text that is rendered; a longer one is shown as it is."""
SCHEMES: Final = ("http://", "https://", "mailto:")


def markdown(value: object) -> Markup:
    """Render a text as HTML whose only active parts are links."""
    text = visible(str(value))
    if len(text) > LONGEST:
        return Markup('<div class="plain-text">{}</div>').format(text)
    try:
        tokens = _renderer().parse(text)
        _adapt(tokens)
        made: str = _renderer().renderer.render(tokens, _renderer().options, {})
    except (RecursionError, ValueError):
        return Markup('<div class="plain-text">{}</div>').format(text)
    return Markup(made)  # noqa: S704 - the renderer escapes every text


@lru_cache(maxsize=1)
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt  # takes longer to import than most pages take

    # Tables stay off: a short text can ask for thousands of empty cells.
    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("strikethrough")
    made.disable(["image", "html_block", "html_inline"])
    made.validateLink = _is_safe  # type: ignore[method-assign]
    return made


def _is_safe(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)


def _adapt(tokens: Sequence[Token]) -> None:
    """Keep headings out of the page's outline, set `rel` on links, and drop styles, which the page's policy forbids."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrSet("class", "md-heading")
        elif token.type == "link_open":
            token.attrs = {"href": str(token.attrGet("href")), "rel": "noopener noreferrer nofollow"}
        elif token.type == "fence":
            token.info = ""
        token.attrs.pop("style", None)
        if token.children:
            _adapt(token.children)
