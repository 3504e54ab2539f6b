"""`dataclass` of the standard library, which writes a class's methods when the first of them is called.

A server has 230 of these classes and a verb 30 to 90, and most never have an instance in their process. The
standard library compiles the methods of each at once, 0.5 ms a class; this takes 0.02 (decision 227). All
else is the standard library's, and done by it: what the methods do, `fields`, `replace`, `asdict`, patterns.
"""

import dataclasses
from _thread import RLock
from collections.abc import Callable
from dataclasses import asdict, field, fields, replace
from typing import TYPE_CHECKING

__all__ = ["asdict", "dataclass", "field", "fields", "names_of", "replace"]

_COMPARED = ("__lt__", "__le__", "__gt__", "__ge__")
_COPIED = ("__getstate__", "__setstate__")  # what `copy` and `pickle` call of a frozen class with slots
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_TURN = RLock()  # one thread makes methods, those of its class's bases too

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, slots: bool = False, **options: bool
    ) -> type | Callable[[type], type]:
        """Return the class; the options are those of `dataclasses.dataclass`.

        One without slots is made at once: it has to be the class itself, and with slots another one takes its
        place anyway.
        """

        def made_of(plain: type) -> type:
            return _made_late(plain, options) if slots else dataclasses.dataclass(**options)(plain)

        return made_of if cls is None else made_of(cls)


def names_of(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a class with slots that inherits none."""
    names: tuple[str, ...] = vars(kind)["__slots__"]
    return names


class _Fact:
    """What the class says about itself, once it is asked."""

    __slots__ = ("_found", "_name")

    def __init__(self, found: Callable[[], dict[str, object]], name: str) -> None:
        self._found = found
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self._found()[self._name]


def _made_late(plain: type, options: dict[str, bool]) -> type:
    """Return a class with slots in the place of `plain`; its methods are those of `plain`, made later."""
    members = {name: value for name, value in vars(plain).items() if name not in {"__dict__", "__weakref__"}}
    is_frozen = options.get("frozen", False)
    own = ("__init__", "__repr__", *(_COPIED if is_frozen else ()))
    wanted = [name for name in own if name not in members]
    if options.get("eq", True):
        wanted += [] if "__eq__" in members else ["__eq__"]
        if members.get("__hash__") is None:  # also where Python has put None beside an `__eq__`
            members["__hash__"] = None
            wanted += ["__hash__"] if is_frozen else []
    if options.get("order", False):
        wanted += _COMPARED
    found: dict[str, object] = {}

    def make() -> dict[str, object]:
        with _TURN:
            if not found:
                whole = vars(dataclasses.dataclass(slots=True, **options)(plain))
                found.update({name: whole[name] for name in (*wanted, *_FACTS)})
                for name, value in found.items():
                    setattr(cls, name, value)
        return found

    def late(name: str) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            method = make()[name]
            assert callable(method)
            return method(*given, **named)

        return call

    kinds = vars(plain).get("__annotations__", {})
    names = [name for name, kind in kinds.items() if "ClassVar" not in str(kind)]
    for name in names:
        members.pop(name, None)  # its default: the methods know it
    members |= {name: late(name) for name in wanted}
    members |= {name: _Fact(make, name) for name in _FACTS}
    if is_frozen:
        members |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    members["__slots__"] = tuple(names)
    cls = type(plain)(plain.__name__, plain.__bases__, members)
    cls.__qualname__ = plain.__qualname__
    return cls


def _refuse_to_set(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
