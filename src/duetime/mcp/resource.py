"""What a resource is: a URI, or a pattern with one hole, that can be read and watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from duetime.mcp.tool import Call


@dataclass(frozen=True, slots=True)
class Resource:
    """`uri` may hold one `{name}`; what stands there is handed to `read` and `digest`, unquoted."""

    uri: str
    family: str
    title: str
    description: str
    read: Callable[[Call, str], dict[str, Any] | None]
    """None for what does not exist, or is somebody else's."""
    digest: Callable[[Call, str], object] | None = None
    """Something cheap that differs whenever the content may have changed; without it, it never changes."""

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def match(self, uri: str) -> str | None:
        """What fills the hole (empty where there is none), or None when this is another resource."""
        if not self.is_template:
            return "" if uri == self.uri else None
        before, _, rest = self.uri.partition("{")
        after = rest.partition("}")[2]
        inside = uri[len(before) : len(uri) - len(after)]
        fits = uri.startswith(before) and uri.endswith(after) and inside and "/" not in inside
        return unquote(inside) if fits else None
