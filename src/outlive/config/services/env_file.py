r"""Variables in a file, as `.env` files of foreman, docker and systemd have them: `parse_env_file`. Pure.

A line is `NAME=VALUE`, with or without `export` before it. Blank lines and lines that begin with # mean nothing. A value in single quotes
is taken as it is; in double quotes \n, \", \\ and \$ are read; one without quotes ends at a blank with # behind it. Nothing is
expanded: a secret may hold a $.
"""

import re

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_SINGLE = re.compile(r"'([^']*)'[ \t]*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?')
_ESCAPED = re.compile(r"\\(.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; the last one of a name counts.

    Raises:
        ValueError: A line is none of that; the sentence names its number, and never its content, which may be a secret.
    """
    found: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        parts = _LINE.fullmatch(line)
        value = None if parts is None else _value(parts[2])
        if parts is None or value is None or "\0" in value:
            raise ValueError(f"line {number} is not NAME=VALUE")
        found[parts[1]] = value
    return found


def _value(text: str) -> str | None:
    """Return what a value means; None where a quote is not closed."""
    if text.startswith("'"):
        single = _SINGLE.fullmatch(text)
        return None if single is None else single[1]
    if text.startswith('"'):
        double = _DOUBLE.fullmatch(text)
        # A backslash before any other letter stays, as in a shell.
        return None if double is None else _ESCAPED.sub(lambda one: _LETTERS.get(one[1], one[0]), double[1])
    return re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()
