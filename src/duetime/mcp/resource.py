"""`Resource`: a URI, or a URI template with one placeholder, that can be read and watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from duetime.service.services import Call


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. `uri` may contain one placeholder `{name}`, whose unquoted value is passed to `read` and `digest`."""

    uri: str
    title: str
    description: str
    read: Callable[[Call, str], dict[str, Any] | None]
    """Returns None if the resource does not exist or belongs to another owner."""
    digest: Callable[[Call, str], object] | None = None
    """Returns a cheap value that differs whenever the content may have changed; None if the content never changes."""

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def match(self, uri: str) -> str | None:
        """Return the value of the placeholder (empty if there is none), or None if the URI is of another resource."""
        if not self.is_template:
            return "" if uri == self.uri else None
        before, _, rest = self.uri.partition("{")
        after = rest.partition("}")[2]
        inside = uri[len(before) : len(uri) - len(after)]
        fits = uri.startswith(before) and uri.endswith(after) and inside and "/" not in inside
        return unquote(inside) if fits else None
