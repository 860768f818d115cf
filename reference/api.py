"""The page of the HTTP API, from its own OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from duetime.kinds import load_specs
from duetime.rest.application import describe
from reference.markdown import code, page, table
from reference.schemas import fields, meaning, words

Document = Mapping[str, Any]
_ABOUT = """\
`duetime serve` serves the API below `/api`; the machine-readable form of this page is at `/api/openapi.json`.

{description}

<!-- not run: needs a running server -->
```sh
curl -H "Authorization: Bearer $(cat ~/.local/share/duetime/auth/local.token)" http://127.0.0.1:8765/api/v1/upcoming
```

Lists are paginated: pass the `next_cursor` of one page as the `cursor` of the next. Errors are
`application/problem+json` with `type`, `title`, `status`, `detail` (what to do next) and, if one is at fault,
`field`. [Manage and monitor schedules](../how-to/look-and-act.md) describes events, metrics and calendar feeds.

Every route may also answer {always}; further error statuses are listed with each route."""


def openapi() -> Document:
    return describe(load_specs().values(), "0").openapi()


def api_page() -> str:
    document = openapi()
    routes = list(_routes(document))
    always = set.intersection(*(_refusals(route) for _, _, route in routes))
    about = _ABOUT.format(description=document["info"]["description"], always=", ".join(sorted(always)))
    parts = [about]
    for tag in dict.fromkeys(route["tags"][-1] for _, _, route in routes):
        parts.append(f"## {tag.capitalize()}")
        parts += [
            part
            for method, path, route in routes
            if route["tags"][-1] == tag
            for part in _route(method, path, route, always)
        ]
    return page("HTTP API", *parts, "## Shapes", *_shapes(document))


def _routes(document: Document) -> Iterator[tuple[str, str, Document]]:
    [server] = document["servers"]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield method.upper(), server["url"] + path, route


def _refusals(route: Document) -> set[str]:
    return {status for status in route["responses"] if int(status) >= 400}


def _route(method: str, path: str, route: Document, always: set[str]) -> list[str]:
    given = [
        (code(_spelled(each)), f"{each['in']}: {words(each['schema'], nulls=False)}", meaning(each["schema"]))
        for each in route.get("parameters", ())
        if each["in"] != "path"
    ]
    answers = [_answer(status, said) for status, said in route["responses"].items() if int(status) < 400]
    refusals = sorted(_refusals(route) - always)
    also = f"; else {', '.join(refusals)}" if refusals else ""
    body = route.get("requestBody")
    taken = f"Takes {_schema(body['content'])}. " if body else ""
    return [
        f"### {method} {path}",
        route["description"],
        f"{taken}Answers {', '.join(answers)}{also}.",
        table(["parameter", "where and what", "meaning"], given),
    ]


def _spelled(parameter: Document) -> str:
    """Return the name of a header as people write it."""
    name = str(parameter["name"])
    return name.title() if parameter["in"] == "header" else name


def _answer(status: str, said: Document) -> str:
    content = said.get("content")
    return f"{status} with {_schema(content)}" if content else status


def _schema(content: Document) -> str:
    [(kind, inside)] = content.items()
    return words(inside["schema"], nulls=True) if kind == "application/json" else code(kind)


def _shapes(document: Document) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}"
        yield str(schema.get("description", ""))
        rows = (
            (code(field.name), field.kind + ("" if field.required else ", optional"), field.meaning)
            for field in fields(schema, nulls=True)
        )
        yield table(["field", "type", "meaning"], rows)
