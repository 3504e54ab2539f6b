"""What a relay tells the server of its host: `PROJECT_HEADER`, and the folder and environment that are passed
on. Pure.

Standard library only: the relay starts in a few milliseconds.
"""

from collections.abc import Mapping

PROJECT_HEADER = "outlive-project"  # lower case, as HTTP header names are compared
MAX_ENVIRONMENT_BYTES = 64 * 1024  # as many as travel to the keeper beside a spec (208 KiB)


def passed_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are passed on, and the names of those that are left out.

    JSON carries no bytes that are no UTF-8 (PEP 383). Where all are too large together, the largest are left
    out first: it is nearly always one alone that makes an environment too large.
    """
    passed = {
        name: value for name, value in environ.items() if name and "=" not in name and _is_text(name + value)
    }
    size = sum(map(_size, passed.items()))
    left_out = [name for name in environ if name not in passed]
    # The relay names what it left out on stderr: a command that misses a variable can then be explained.
    for name in sorted(passed, key=lambda name: len(passed[name]), reverse=True):
        if size <= MAX_ENVIRONMENT_BYTES:
            break
        size -= _size((name, passed.pop(name)))
        left_out.append(name)
    return passed, left_out


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in text)


def _size(variable: tuple[str, str]) -> int:
    name, value = variable
    return len(name) + len(value) + 2  # "=" and the NUL behind it (environ(7))
