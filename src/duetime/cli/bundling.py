"""Options that belong together are declared once, as a frozen dataclass, and shared by the commands that take them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def bundled(function: Callable[..., None]) -> Callable[..., None]:
    """Shows Typer the fields of each bundle as options of the command; the command gets the bundle."""
    bundles: dict[str, type[Any]] = {}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        annotation = parameter.annotation
        if isinstance(annotation, type) and is_dataclass(annotation):
            bundles[parameter.name] = annotation
            shown += _options(annotation)
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def call(**given: Any) -> None:
        made = {name: of(**{each.name: given.pop(each.name) for each in fields(of)}) for name, of in bundles.items()}
        function(**given, **made)

    vars(call)["__signature__"] = inspect.Signature(shown)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return call


@functools.cache
def _options(bundle: type[Any]) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(bundle, include_extras=True)
    return tuple(
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(bundle)
    )
