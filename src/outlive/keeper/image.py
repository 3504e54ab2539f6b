"""The guardian's image, arranged so that the shims forked from it share nearly all of it.

A shim shares a page until it writes to it, and counting references is writing. So what a shim uses is brought
together on few pages (`gather`), and what it allocates does not land in holes all over the heap (`fill_heap_holes`).
Figures and price: decision 23.
"""

# The standard library of guardian and shims is loaded here, before the first filling, and so lies apart from them.
import contextlib  # noqa: F401
import ctypes
import fcntl  # noqa: F401
import importlib.util
import os
import resource  # noqa: F401
import select  # noqa: F401
import signal  # noqa: F401
import socket  # noqa: F401
import struct  # noqa: F401
import sys
import termios  # noqa: F401
import time
import typing  # noqa: F401
from collections.abc import Iterable
from types import CodeType, FrameType, FunctionType, ModuleType

__all__ = ["Recorder", "fill_heap_holes"]

_MALLOC = ctypes.CDLL(None).malloc
_MALLOC.argtypes = (ctypes.c_size_t,)
_MALLOC.restype = ctypes.c_size_t
_BIG = 96 * 1024  # below the size from which malloc maps memory of its own (128 KiB, mallopt(3))


def fill_heap_holes() -> None:
    """Occupy the free chunks inside the heap for good: what is allocated next lies together at the heap's end.

    130 KB of a shim's own memory (measured with all the rest in place, as the other figures here).
    """
    end = _MALLOC(_BIG)
    for size in (*range(_BIG // 2, 4096, -4096), *range(4096, 512, -256), *range(504, 0, -16)):
        for _ in range(10_000):  # a bound for C libraries whose addresses do not grow
            if _MALLOC(size) >= end:
                break


class Recorder:
    """Notes which functions run, from its making until `gather`."""

    def __init__(self) -> None:
        """Begin."""
        self._codes: set[CodeType] = set()
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def gather(self, owners: Iterable[ModuleType | type]) -> None:
        """Replace what ran by copies that lie together: functions of these modules and classes, and what they name.

        55 KB a shim. The copies must run some ten times afterwards: the interpreter specializes code by writing
        into it (75 KB).
        """
        sys.setprofile(None)
        names = {name for code in self._codes for name in code.co_names}
        copies: dict[object, object] = {
            os: _with_new_functions(os, names, source="posix"),
            time: _with_new_functions(time, names, source="time"),
        }
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if isinstance(value, FunctionType) and value.__code__ in self._codes:
                    copies.setdefault(value, _copy_function(value))
                if isinstance(value, FunctionType | ModuleType) and value in copies:
                    setattr(owner, name, copies[value])
                elif isinstance(owner, ModuleType) and name in names:
                    setattr(owner, name, _copy_constant(value))


def _copy_function(function: FunctionType) -> FunctionType:
    code = function.__code__
    copy = FunctionType(
        code.replace(co_consts=tuple(_copy_constant(constant) for constant in code.co_consts)),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _copy_constant(value: object) -> object:
    """Return a new object for a number or bytes, which `copy` would not: 15 to 25 KB a shim."""
    if type(value) is int:
        return value + 0
    if type(value) is bytes:
        return bytes(bytearray(value))
    return value


def _with_new_functions(module: ModuleType, names: Iterable[str], *, source: str) -> ModuleType:
    """Return a copy of a module whose built-in functions of these names are objects made now: 15 KB a shim."""
    spec = importlib.util.find_spec(source)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module))
    vars(copy).update({name: vars(fresh)[name] for name in names if callable(vars(fresh).get(name))})
    vars(fresh).clear()  # its other functions make room for the copies of ours
    return copy
