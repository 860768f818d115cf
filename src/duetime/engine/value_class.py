"""`dataclass`, as the standard one, at a quarter of its cost at import, `NamedTuple` at a third of it, and `pattern`, a
regular expression, for nothing.

The standard dataclass compiles six methods for each class, and a hundred classes are a twentieth of the time until a
server's first answer. Here only `__init__` is compiled; the other methods are shared by all classes. The standard
NamedTuple compiles each annotation, which nobody reads: with it, a command takes 20 ms longer. A regular expression is
compiled when it is first used, because a command uses few of those that its modules have.
"""

from __future__ import annotations

import dataclasses
import re
from collections import namedtuple
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - exported
else:

    class _NamedTupleType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            hints = namespace.pop("__annotations__", {})
            defaults = [namespace.pop(each) for each in hints if each in namespace]
            tuple_type = namedtuple(name, hints, defaults=defaults, module=namespace.pop("__module__"))
            tuple_type.__annotations__ = hints
            for each, value in namespace.items():
                setattr(tuple_type, each, value)
            return tuple_type

    class NamedTuple(metaclass=_NamedTupleType):
        """A tuple whose parts have names. A generic one needs the standard class."""

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, init=True, repr=True, eq=True):
        """Make a class of the annotated attributes. `InitVar` and `order` are not supported, and `frozen` has to be
        that of the base."""

        def build(cls):
            own = set(vars(cls))
            equal = _EQUAL if frozen else _CHANGEABLE
            shared = {**(_STATE if slots else {}), **(equal if eq else {}), **(_SHOWN if repr else {})}
            shared.update(_FROZEN if frozen else {})
            for name, method in shared.items():
                if name not in own:
                    setattr(cls, name, method)
            text = cls.__doc__
            cls.__doc__ = text or cls.__name__  # else the standard one parses a signature, for a millisecond
            hints = vars(cls).get("__annotations__", {})
            # The standard one searches each annotation that is a text for the name of its ClassVar.
            cls.__annotations__ = {name: hint if "ClassVar" in hint else object for name, hint in hints.items()}
            cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            cls.__annotations__, cls.__doc__ = hints, text
            for field in fields(cls):
                field.type = hints.get(field.name, field.type)
            if init and "__init__" not in own:
                cls.__init__ = _compile_init(cls, frozen)
            return cls

        return build if cls is None else build(cls)


_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._source = (text, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        vars(self).update({each: getattr(compiled, each) for each in _METHODS})
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns, compiled on first use."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


def _compile_init(cls: Any, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"set_": object.__setattr__, "MISSING": MISSING}
    positional: list[str] = []
    keywords: list[str] = []
    lines = []
    for field in fields(cls):
        name, default, value = field.name, "", field.name
        if field.default is not MISSING:
            names[f"__default_{name}"] = field.default
            default = f"=__default_{name}"
        elif field.default_factory is not MISSING:
            names[f"__new_{name}"] = field.default_factory
            default, value = "=MISSING", f"__new_{name}() if {name} is MISSING else {name}"
        if field.init:
            (keywords if field.kw_only else positional).append(name + default)
        elif not default:
            continue  # __post_init__ sets it
        else:
            value = f"__new_{name}()" if default == "=MISSING" else default[1:]
        lines.append(f"set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({arguments}):\n " + "\n ".join(lines or ["pass"]), names)  # noqa: S102 - names of attributes only
    method: Callable[..., None] = names["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    return method


@cache
def _values_of(cls: Any) -> Callable[[object], object]:
    names = [field.name for field in fields(cls) if field.compare]
    return attrgetter(*names) if names else lambda value: ()


def _eq(self: Any, other: object) -> Any:
    values = _values_of(self.__class__)
    if other.__class__ is not self.__class__:
        return NotImplemented
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(_values_of(self.__class__)(self))


def _repr(self: Any) -> str:
    values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({values})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
_EQUAL = {"__eq__": _eq, "__hash__": _hash}
_CHANGEABLE = {"__eq__": _eq, "__hash__": None}
_SHOWN = {"__repr__": _repr}
_STATE = {"__getstate__": _state, "__setstate__": _set_state}
"""How a class with slots is pickled and copied."""
