"""Changing one value of a YAML text and nothing else: comments, order, quotes and indentation stay to the
byte.

PyYAML's composer says where each node begins and ends; the edit is made in the text, and PyYAML says what the
result means. Documents that begin with a mapping in block style are edited; what lies deeper may have any
style.

Source: yaml.org/spec/1.1, which is what PyYAML reads; the same text means the same in 1.2 for what is written
here.
"""

import json
import re
from collections.abc import Mapping, Sequence

import yaml

from outlive.cli.machine.hosts.editor import (
    UNIT,
    NotEditable,
    lookup,
    newline_of,
    verified,
    with_value,
    without_value,
)
from outlive.core.documents import MAX_DEPTH, MAX_MEMBERS, MAX_TOML_BYTES

# Words that every reader of YAML takes for a string; everything else is put in quotes.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_NO_STRING = re.compile(r"(?i)true|false|yes|no|on|off|y|n|null")


class YamlText:
    """The editor of YAML."""

    def value_at(self, text: str, path: Sequence[str]) -> object | None:
        """Return the value at the path (`Editor.value_at`)."""
        return lookup(_parsed(text), path)

    def put(self, text: str, path: Sequence[str], *, value: object) -> str:
        """Return the text with the value set (`Editor.put`)."""
        old = _parsed(text)
        if (found := lookup(old, path)) == value and type(found) is type(value):
            return text
        new = _with_value(text, path, value)
        return verified(new, _parsed(new), with_value(old, path, value))

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the value (`Editor.remove`)."""
        old = _parsed(text)
        if lookup(old, path) is None:
            return text
        new = _without(text, path)
        return verified(new, without_value(_parsed(new), path), without_value(old, path))


# What PyYAML raises, and what its constructors of numbers, dates and truths do for a text that is none.
_NOT_READ = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)


def _parsed(text: str) -> object:
    try:
        _check(text)
        return yaml.safe_load(text) or {}
    except NotEditable:
        raise
    except _NOT_READ as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise NotEditable(f"{where}{getattr(error, 'problem', None) or 'no YAML document'}") from None


def _check(text: str) -> None:
    """Bound depth and members, those included that aliases repeat: `with_value` and `verified` see each.

    Raises:
        NotEditable: A text is outside of a bound, or has a value that holds itself.
        yaml.YAMLError: It is no YAML.
    """
    if len(text) > MAX_TOML_BYTES:
        raise NotEditable(f"it has {len(text)} characters, and {MAX_TOML_BYTES} are allowed")
    sizes: dict[str | None, int] = {}  # of what has an anchor
    around: list[tuple[str | None, int]] = [(None, 0)]  # the anchors and sizes of what is open
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        size = 0
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in sizes:
                size = sizes[event.anchor]
            elif event.anchor in (anchor for anchor, _ in around):
                raise NotEditable("it has a value that holds itself")
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, 0)
            around.append((event.anchor, 1))
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = size = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = around.pop()
            sizes[anchor] = size
        around[-1] = (around[-1][0], around[-1][1] + size)
        if len(around) > MAX_DEPTH or around[-1][1] > MAX_MEMBERS:
            raise NotEditable("it has too many values, or too many in each other")


def _root(text: str) -> yaml.MappingNode | None:
    """Return the outermost mapping, None for a text without one."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return None
    if not isinstance(root, yaml.MappingNode) or root.flow_style or root.start_mark.column:
        raise NotEditable("a mapping in block style was expected")
    return root


def _pair(mapping: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    found = [(key, value) for key, value in mapping.value if key.value == name]
    if len(found) > 1:
        raise NotEditable(f"{json.dumps(name)} stands there {len(found)} times")
    return found[0] if found else None


def _with_value(text: str, path: Sequence[str], value: object) -> str:
    place = _root(text)
    newline = newline_of(text)
    if place is None:
        head = text if not text or text.endswith("\n") else text + newline
        return head + _block(path, value, indent="", newline=newline)
    for depth, name in enumerate(path):
        pair = _pair(place, name)
        if pair is None:
            return _inserted(text, place, path[depth:], value)
        key, node = pair
        is_last = depth == len(path) - 1
        if not is_last and isinstance(node, yaml.MappingNode) and node.value:
            place = node
            continue
        if place.flow_style:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return text[: node.start_mark.index] + json.dumps(value) + text[node.end_mark.index :]
        # A value, or nothing, or an empty mapping: what follows the colon is written anew.
        indent = " " * key.start_mark.column
        colon = text.index(":", key.end_mark.index) + 1
        end = max(_content_end(text, node), colon)
        if is_last and not isinstance(value, Mapping):
            return f"{text[:colon]} {_scalar(value)}{text[end:]}"
        rest = text[end:]
        line_end = rest.find("\n")
        kept, rest = (rest, "") if line_end < 0 else (rest[:line_end].rstrip("\r"), rest[line_end + 1 :])
        block = (
            _block(path[depth + 1 :], value, indent=indent + UNIT, newline=newline)
            if not is_last
            else _fields(value, indent=indent + UNIT, newline=newline)
        )
        return f"{text[:colon]}{kept}{newline}{block}{rest}"
    raise AssertionError("a path has at least one name")


def _inserted(text: str, into: yaml.MappingNode, path: Sequence[str], value: object) -> str:
    """Add a pair behind the last one of a mapping that has some."""
    last = into.value[-1][1]
    end = max(_content_end(text, last), into.value[-1][0].end_mark.index)
    if into.flow_style:
        for outer in reversed(path[1:]):
            value = {outer: value}
        return f"{text[:end]}, {json.dumps(path[0])}: {json.dumps(value)}{text[end:]}"
    newline = newline_of(text)
    end = _line_end(text, end)
    head = text[:end] if text[:end].endswith("\n") else text[:end] + newline
    indent = " " * into.value[0][0].start_mark.column
    return head + _block(path, value, indent=indent, newline=newline) + text[end:]


def _without(text: str, path: Sequence[str]) -> str:
    place = _root(text)
    assert place is not None
    # The outermost mapping that would be empty afterwards goes with the value.
    cut_from, cut_name = place, path[0]
    for depth, name in enumerate(path):
        if len(place.value) > 1 or depth == 0:
            cut_from, cut_name = place, name
        pair = _pair(place, name)
        assert pair is not None
        if depth < len(path) - 1:
            assert isinstance(pair[1], yaml.MappingNode)
            place = pair[1]
    pair = _pair(cut_from, cut_name)
    assert pair is not None
    key, node = pair
    end = max(_content_end(text, node), key.end_mark.index)
    if not cut_from.flow_style:
        start = text.rfind("\n", 0, key.start_mark.index) + 1
        return text[:start] + text[_line_end(text, end) :]
    position = cut_from.value.index(pair)
    if position:
        before = cut_from.value[position - 1][1]
        return text[: before.end_mark.index] + text[end:]
    return text[: key.start_mark.index] + text[cut_from.value[1][0].start_mark.index :]


def _content_end(text: str, node: yaml.Node) -> int:
    """Return where a node's own text ends.

    A block's mark lies behind the blanks and comments that follow it.
    """
    end: int = node.end_mark.index
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if not isinstance(last, tuple):
            return _content_end(text, last)
        key, value = last
        end = key.end_mark.index
        if value.start_mark.index >= end:  # else an alias: its marks are those of what it stands for
            end = max(_content_end(text, value), end)
    return end


def _line_end(text: str, position: int) -> int:
    """Return where the next line begins; a literal block ends there already."""
    if position and text[position - 1] == "\n":
        return position
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _block(path: Sequence[str], value: object, *, indent: str, newline: str) -> str:
    """Return lines for a path of names and the value below them."""
    lines = ""
    for name in path[:-1]:
        lines += f"{indent}{_scalar(name)}:{newline}"
        indent += UNIT
    if not isinstance(value, Mapping):
        return f"{lines}{indent}{_scalar(path[-1])}: {_scalar(value)}{newline}"
    return f"{lines}{indent}{_scalar(path[-1])}:{newline}" + _fields(
        value, indent=indent + UNIT, newline=newline
    )


def _fields(value: object, *, indent: str, newline: str) -> str:
    assert isinstance(value, Mapping)
    return "".join(f"{indent}{_scalar(name)}: {_scalar(one)}{newline}" for name, one in value.items())


def _scalar(value: object) -> str:
    """Return a value on one line: a word as it is, else JSON, which YAML reads (its 1.2 says so)."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _NO_STRING.fullmatch(value):
        return value
    return json.dumps(value)
