"""JSON, TOML and lines that others wrote, decoded within bounds: `decode_json`, `decode_toml`, `decode_text`.
Pure.

Others are projects, users, hosts of MCP, nodes and gateways, and a restored archive has written every file of
the state folder. The bounds are checked in the text, before anything is made
of it: a decoder makes fifty bytes of memory of each "[" and a frame of the stack of each depth. Numbers are
finite and have at most 64 bits, so that no later arithmetic or formatting fails. `checked_json` is the first
half alone, for C decoders that make typed values themselves.

Which files are read, and how long a pipe is waited for: `files.documents`.
"""

import codecs
import json
import re
from typing import Any

MAX_DEPTH = 64  # arrays and objects in each other; settings and messages have some five
MAX_MEMBERS = 200_000  # values in arrays and objects, some 20 MB in memory
MAX_BYTES = 16 << 20  # a message of outlive's protocols at its largest
MAX_TOML_BYTES = 1 << 20  # a thousand times a usual settings file
_INTEGER_BITS = 64
_MAX_DIGITS = 400  # more than any finite number without an exponent needs

# Strings first, so that nothing in them counts. A string without an end reaches up to the text's: possessive,
# since each attempt from within would read it once more.
# Compiled when a text needs them: `re` keeps what it has compiled.
_JSON_MARK = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[]}]|,'
_TOML_MARK = r"""
    \"{3}[^"\\]*+(?:(?:\\.|"{1,2}(?!"))[^"\\]*+)*+(?:"{3,5})?
    | '{3}[^']*+(?:'{1,2}(?!')[^']*+)*+(?:'{3,5})?
    | "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?
    | '[^'\n]*+'?
    | \#[^\n]*+
    | [\[{] | []}] | \. | ,
    | (?P<key_end>[=\n])
    | (?P<digits>[0-9A-Fa-f_]{129,})
    """


class BadDocument(ValueError):
    """The text is not of its format, or outside of a bound; the message says which, for people."""


def checked_json(raw: bytes | str, *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS) -> str:
    """Return JSON text whose size, depth and number of members are within bounds; it may still be no JSON.

    Raises:
        BadDocument: It is outside of one, or no UTF-8.
    """
    if len(raw) > max_bytes:
        raise BadDocument(f"it has {len(raw)} bytes, and {max_bytes} are allowed")
    try:
        text = raw if isinstance(raw, str) else str(raw, "utf-8")
    except UnicodeDecodeError:
        raise BadDocument("it is no UTF-8 text") from None
    # What counts too much (in strings) at the speed of memory; exactly only where that does not settle it.
    depth = text.count("[") + text.count("{")
    if depth > MAX_DEPTH or (len(text) > max_members and depth + text.count(",") > max_members):
        _check_json(text, max_members)
    return text


def decode_json(raw: bytes | str, *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS) -> Any:  # noqa: ANN401 -- any JSON
    """Return the value of a JSON text.

    Raises:
        BadDocument: It is none, or outside of a bound.
    """
    text = checked_json(raw, max_bytes=max_bytes, max_members=max_members)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadDocument(f"it is no JSON: {error}") from None
    except RecursionError:  # `MAX_DEPTH` fits on every stack but one that is nearly full already
        raise BadDocument("its values are too deep in each other") from None


def decode_object(
    raw: bytes | str, *, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS
) -> dict[str, Any]:
    """Return the members of a JSON text that is one object.

    Raises:
        BadDocument: It is none, or outside of a bound.
    """
    found = decode_json(raw, max_bytes=max_bytes, max_members=max_members)
    if not isinstance(found, dict):
        raise BadDocument("it is no JSON object")
    return found


def decode_text(raw: bytes, *, errors: str = "strict") -> str:
    """Return a text as the editors of all systems write it: in UTF-8, or with a mark that says which of UTF-8
    and UTF-16 it is. Its lines end in a newline.

    Raises:
        UnicodeDecodeError: It is neither, and `errors` is "strict".
    """
    marks = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
    encoding = next((one for mark, one in marks if raw.startswith(mark)), "utf-8")
    return raw.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def decode_toml(text: str, *, max_bytes: int = MAX_TOML_BYTES) -> dict[str, Any]:
    """Return the members of a TOML text.

    Raises:
        BadDocument: It is none, or outside of a bound. For a text that is none the message has the line.
    """
    import tomllib  # noqa: PLC0415 -- start-up time: most programs of ours read no TOML

    if len(text) > max_bytes:
        raise BadDocument(f"it has {len(text)} characters, and {max_bytes} are allowed")
    _check_toml(text)
    try:
        found = tomllib.loads(text, parse_float=_finite)
    except tomllib.TOMLDecodeError as error:
        raise BadDocument(str(error)) from None
    except RecursionError:
        raise BadDocument("its values are too deep in each other") from None
    return found


def _check_json(text: str, max_members: int) -> None:
    depth, members = 0, 0
    for found in re.finditer(_JSON_MARK, text, re.DOTALL):
        mark = text[found.start()]
        if mark in "[{":
            depth, members = depth + 1, members + 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif mark == ",":
            members += 1
        elif mark in "]}":
            depth -= 1
        if members > max_members:
            raise BadDocument(f"it has more than {max_members} members")


def _check_toml(text: str) -> None:
    """Bound the depth of values and of dotted keys: each part of `a.b.c` is a table in the one before."""
    depth, dots = 0, 0
    for found in re.finditer(_TOML_MARK, text, re.DOTALL | re.VERBOSE):
        mark = text[found.start()]
        if found["digits"] is not None:
            raise BadDocument("it has a number, or a name, of more than 128 digits")
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth = max(0, depth - 1)
        elif mark == ".":
            dots += 1
        elif mark == "," or found["key_end"] is not None:
            dots = 0
        if max(depth, dots) > MAX_DEPTH:
            raise _too_deep()


def _too_deep() -> BadDocument:
    return BadDocument(f"more than {MAX_DEPTH} of its values are in each other")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:  # infinite, or no number; `math` is one more import of the keeper's
        raise BadDocument("it has a number that is not finite")
    return number


def _whole(text: str) -> int:
    # The length first: beyond some thousand digits `int` refuses, and before that it takes its time.
    if len(text) > _MAX_DIGITS or (number := int(text)).bit_length() > _INTEGER_BITS:
        raise BadDocument(f"it has a number of more than {_INTEGER_BITS} bits")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_whole, parse_constant=_finite)
