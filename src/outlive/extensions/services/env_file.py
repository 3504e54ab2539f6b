r"""Variables in a file, as `.env` files of foreman, docker and systemd have them: `parse_env_file`. Pure.

A line is `NAME=VALUE`, with or without `export` before it. Blank lines and lines that begin with # mean
nothing. A value in single quotes is taken as it is; in double quotes \n, \", \\ and \$ are read; either may
go on over lines. One without quotes ends at a blank with # behind it. Nothing is expanded: a secret may hold
a $.
"""

import re

_NAME = re.compile(r"\s*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")
_QUOTED = re.compile(r"""[ \t]*(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[^\S\n]*(?:\#[^\n]*)?(?=\n|\Z)""", re.DOTALL)
_PLAIN = re.compile(r"""(?![ \t]*["'])[^\n]*""")
_ESCAPED = re.compile(r"\\(.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; the last one of a name counts.

    Raises:
        ValueError: A line is none of that; the sentence names its number, and never its content, which may be
        a secret.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = text.find("\n", at) % (len(text) + 1)  # where there is none, the text's end
        if (line := text[at:end].strip()) and not line.startswith("#"):
            name = _NAME.match(text, at, end)
            start = end if name is None else name.end()
            value = _QUOTED.match(text, start) or _PLAIN.match(text, start)
            if name is None or value is None or "\0" in value[0]:
                raise ValueError(f"line {text.count(chr(10), 0, at) + 1} is not NAME=VALUE")
            found[name[1]] = _meant(value)
            end = value.end()
        at = end + 1
    return found


def _meant(value: re.Match[str]) -> str:
    if value.re is _PLAIN:
        return re.split(r"[ \t]#", value[0], maxsplit=1)[0].strip()
    if value[1] is not None:
        return value[1]
    # A backslash before any other letter stays, as in a shell.
    return _ESCAPED.sub(lambda one: _LETTERS.get(one[1], one[0]), value[2])
