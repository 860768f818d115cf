"""A real browser on pages with payloads: it detects anything that runs, opens, asks, loads or was not in a template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page

from duetime.http.sessions import Sessions
from tests.support.web import Site
from tests.support.xss import payloads

LOOK = """
() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("[title], summary, a, input")) {
    each.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
    each.focus?.();
  }
}
"""
TRAP = """
window.found = [];
window.pwned = number => window.found.push(`ran ${number}`);
for (const name of ["alert", "confirm", "prompt", "print", "open"]) window[name] = () => window.found.push(name);
addEventListener("securitypolicyviolation", event => window.found.push(`policy: ${event.effectiveDirective}`));
"""
FOUND = """
() => {
  const foreign = "IMG IFRAME OBJECT EMBED STYLE BASE VIDEO AUDIO MARQUEE TEMPLATE MATH".split(" ");
  const addresses = ["href", "src", "action", "formaction", "xlink:href", "data"];
  const ours = each => each.tagName === "IMG" && each.getAttribute("src").startsWith("/static/icon.svg");
  const placed = one => one.ownerElement.id === "tip" && /^left: [-\\d.]+px; top: [-\\d.]+px;$/.test(one.value);
  const runs = one => one.name.startsWith("on") || one.name === "style" && !placed(one)
    || addresses.includes(one.name) && /^\\s*(java|vb)script:/i.test(one.value);
  const strange = [...document.querySelectorAll("*")].filter(each =>
    foreign.includes(each.tagName.toUpperCase()) && !ours(each)
    || each.tagName === "SCRIPT" && !each.src.startsWith(location.origin + "/static/")
    || each.tagName === "A" && !["http:", "https:"].includes(each.protocol)
    || [...each.attributes].some(runs)
  );
  return [...window.found, ...strange.map(each => each.outerHTML.slice(0, 200))];
}
"""


@contextmanager
def visiting(browser: Browser, there: Site) -> Iterator[Page]:
    with browser.new_context(timezone_id="UTC") as context:
        page = context.new_page()
        page.add_init_script(TRAP)
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        context.on("page", lambda opened: pytest.fail(f"a window: {opened.url}") if opened != page else None)
        link = Sessions(there.tokens, there.room.clock).link()
        page.goto(f"http://127.0.0.1:{there.port}/login?token={link}")
        yield page


def check(page: Page, there: Site, path: str) -> str:
    """Return the text of a page in which nothing ran, after everything that moves and takes the focus had its
    chance."""
    page.goto(f"http://127.0.0.1:{there.port}{path}", wait_until="domcontentloaded")
    page.evaluate(LOOK)
    assert page.evaluate(FOUND) == [], path
    assert page.url.startswith(f"http://127.0.0.1:{there.port}/"), "nobody was sent elsewhere"
    return page.inner_text("body")


def missing(texts: Sequence[str], given: Sequence[str]) -> list[int]:
    """Return payloads that were given whole and that none of the pages shows, because those prove nothing."""
    whole, shown = "".join(given), "".join(texts)
    expected = [number for number, payload in enumerate(payloads()) if payload in whole]
    assert expected
    return [number for number in expected if f"pwned({number})" not in shown]
