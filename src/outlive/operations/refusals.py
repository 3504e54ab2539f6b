"""What is wrong with a request, in words of its caller's: `refusal_of`. Pure.

msgspec says what it expected, in Python's words, and not what was given. This says what was given, what is
possible there by the request's shape, and the nearest name of what has none. Only errors come here.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import orjson
from msgspec import inspect

from outlive.core.errors import InvalidRequest

_PLACE = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_OF_A_VALUE = re.compile(r"Expected |Invalid |Integer |Number ")
_BYTE = re.compile(r"byte (\d+)")
_SHOWN = 40  # characters of a text that was given
_LONGEST = 200  # characters of a place
_NAMED = 20  # names of an object that are listed
_SEVERAL = {
    "a text": "texts",
    "a whole number": "whole numbers",
    "a number": "numbers",
    "an object": "objects",
}


def refusal_of(error: Exception, members: object, shape: type[msgspec.Struct]) -> InvalidRequest:
    """Return the refusal of members that do not make a request of that shape; `error` says which, by its
    place.
    """
    text, _, path = str(error).partition(" - at ")
    found = _RequestPart(inspect.type_info(shape), members)
    for name, number in _PLACE.findall(path.strip("`")):
        found = found.inside(name or number)
    place = found.place
    if missing := _MISSING.fullmatch(text):
        within = found.inside(missing[1])
        place, text = within.place, f"it is missing; {_possible(within.kinds)} is needed"
        if near := _nearest(missing[1], [one for one in found.given if one not in found.names]):
            text = f"{text} ({near!r} was given)"
    elif unknown := _UNKNOWN.fullmatch(text):
        place, text = found.inside(unknown[1]).place, about_unknown(unknown[1], found.names)
    elif path.startswith("`key` in"):
        keys = [kind.key_type for kind in found.kinds if isinstance(kind, inspect.DictType)]
        text = f"the names in it are {_possible(keys)}"
    elif _OF_A_VALUE.match(text):
        text = f"{_possible(found.kinds)} is needed, not {_given(found)}"
        near = _nearest(found.value, [str(one) for one in found.choices])
        text = f"{text}; did you mean {near}?" if near else text
    said = f"{place}: {text[:1].lower()}{text[1:]}" if place else text
    details = {"parameter": place} if place else {}
    return InvalidRequest("invalid_params", said if said.endswith("?") else f"{said}.", details=details)


def about_unknown(name: str, names: Sequence[str]) -> str:
    """Return what is said of a name that is not among those that there are."""
    if near := _nearest(name, names):
        return f"it is not known; did you mean {near}?"
    return f"it is not known; there are {', '.join(names[:_NAMED]) or 'none'}"


def broken_json(error: Exception) -> str:
    """Return a sentence, without its end, on a text that is no JSON."""
    at = _BYTE.search(str(error))
    if at is not None:
        return f"This is no JSON: it is broken at byte {at[1]}"
    if isinstance(error, RecursionError):
        return "JSON is nested too deeply"
    return "This is no JSON: it ends too early" if "truncated" in str(error) else "This is no JSON"


class _RequestPart:
    """A place in a request: the kinds of values that are possible there, and the value that is."""

    def __init__(self, kind: inspect.Type, value: object, place: str = "") -> None:
        self.kinds = [*_unfolded(kind)]
        self.value = value
        self.place = place

    def inside(self, step: str) -> "_RequestPart":
        """Return what is in there; a place that the shape does not have may be anything."""
        kind = next(self._inside(step), inspect.AnyType())
        if isinstance(self.value, dict):
            if step == "...":  # msgspec does not name the key
                step = next((name for name, one in self.value.items() if not _fits(kind, one)), step)
            place = f"{self.place}.{step}".removeprefix(".")[:_LONGEST]
            return _RequestPart(kind, self.value.get(step), place)
        within = self.value if isinstance(self.value, list | tuple) and step.isdigit() else ()
        value = within[int(step)] if step.isdigit() and int(step) < len(within) else None
        return _RequestPart(kind, value, f"{self.place}[{step}]")

    def _inside(self, step: str) -> Iterator[inspect.Type]:
        for kind in self.kinds:
            for field in getattr(kind, "fields", ()):
                if field.encode_name == step:
                    yield field.type
            for name in ("item_type", "value_type"):
                if hasattr(kind, name):
                    yield getattr(kind, name)

    @property
    def names(self) -> list[str]:
        """The members of an object."""
        return [field.encode_name for kind in self.kinds for field in getattr(kind, "fields", ())]

    @property
    def given(self) -> list[str]:
        """The members that are given."""
        return [*self.value] if isinstance(self.value, dict) else []

    @property
    def choices(self) -> list[object]:
        """The words that are possible, where only words are."""
        return [value for kind in self.kinds for value in _values(kind)]


def _unfolded(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _unfolded(one)
    elif isinstance(kind, inspect.Metadata):
        yield from _unfolded(kind.type)
    else:
        yield kind


# What JSON's decoder makes of each kind of value.
_DECODED: Mapping[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.NoneType: (type(None),),
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
}


def _fits(kind: inspect.Type, value: object) -> bool:
    return any(isinstance(value, _DECODED.get(type(one), (object,))) for one in _unfolded(kind))


def _values(kind: inspect.Type) -> Sequence[object]:
    if isinstance(kind, inspect.LiteralType):
        return kind.values
    return [one.value for one in kind.cls] if isinstance(kind, inspect.EnumType) else ()


def _nearest(word: object, names: Sequence[str]) -> str:
    if not isinstance(word, str):
        return ""
    known = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return known[near[0]] if near else ""


def _possible(kinds: Sequence[inspect.Type]) -> str:
    """Return what may stand there: "a whole number from 1 to 1000 or null"."""
    return " or ".join(dict.fromkeys(map(_words, kinds)))


def _words(kind: inspect.Type) -> str:
    match kind:
        case inspect.StrType():
            if kind.pattern is not None:
                return f"a text of the form {kind.pattern}"
            return f"a text{_sized(kind.min_length, kind.max_length, 'characters')}"
        case inspect.IntType() | inspect.FloatType():
            return f"a {'whole ' * isinstance(kind, inspect.IntType)}number{_bounded(kind)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType() | inspect.EnumType():
            values = [str(one) for one in _values(kind)]
            return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
        case inspect.CollectionType():
            inner = _possible([*_unfolded(kind.item_type)])
            several = f" of {_SEVERAL[inner]}" if inner in _SEVERAL else ""
            return f"a list{several}{_sized(kind.min_length, kind.max_length, 'values')}"
        case inspect.BytesType():
            return "a text in base64"
        case inspect.AnyType():
            return "another value"
        case inspect.DictType():
            return f"an object{_sized(kind.min_length, kind.max_length, 'members')}"
        case _:
            return "a list" if isinstance(kind, inspect.TupleType) else "an object"


def _sized(least: int | None, most: int | None, unit: str) -> str:
    if least and most is not None:
        return f" of {least} to {most} {unit}"
    return f" of {least} or more {unit}" if least else "" if most is None else f" of at most {most} {unit}"


def _bounded(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    words = [
        f"{kind.ge} or more" if kind.ge is not None else "",
        f"more than {kind.gt}" if kind.gt is not None else "",
        f"at most {kind.le}" if kind.le is not None else "",
        f"less than {kind.lt}" if kind.lt is not None else "",
    ]
    return f" of {' and '.join(filter(None, words))}" if any(words) else ""


def _given(found: _RequestPart) -> str:
    """Return what was given, short; a text, which may be a secret, only where one of some words is needed, or
    a number.
    """
    match found.value:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case str() as text:
            is_word = found.choices or any(
                isinstance(one, inspect.IntType | inspect.FloatType | inspect.BoolType) for one in found.kinds
            )
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            if is_word:
                return repr(shown)
            return "this one" if any(isinstance(one, inspect.StrType) for one in found.kinds) else "a text"
        case None | bool() | int() | float() as value:
            try:
                return orjson.dumps(value).decode()
            except TypeError:  # a number of more than 64 bits
                return str(value)[:_SHOWN]
        case _:
            return "this"
