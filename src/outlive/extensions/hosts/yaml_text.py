"""YAML: PyYAML's composer says where each node begins and ends, and PyYAML writes the piece that is put in.

Documents that begin with a mapping in block style are edited; what lies deeper may have any style.

Source: yaml.org/spec/1.1, which is what PyYAML reads; the same text means the same in 1.2 for what is written
here.
"""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence

import yaml

from outlive.core.documents import MAX_DEPTH, MAX_MEMBERS, MAX_TOML_BYTES
from outlive.extensions.hosts.editor import NotEditable, nested, newline_of

# What PyYAML raises, and what its constructors of numbers, dates and truths do for a text that is none.
_NOT_READ = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)


class YamlText:
    """The format YAML."""

    def parsed(self, text: str) -> object:
        """Return the document (`Format.parsed`)."""
        try:
            _check(text)
            return yaml.safe_load(text) or {}
        except NotEditable:
            raise
        except _NOT_READ as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f"line {mark.line + 1}: "
            raise NotEditable(f"{where}{getattr(error, 'problem', None) or 'no YAML document'}") from None

    def put(self, text: str, path: Sequence[str], value: object) -> str:
        """Write the value anew, or a pair behind the last one (`Format.put`)."""
        place, newline = _root(text), newline_of(text)
        if place is None:
            return _ended(text, newline) + _block(nested(path, value), "", newline)
        for depth, name in enumerate(path):
            pair = _pair(place, name)
            if (
                pair is None
                or depth == len(path) - 1
                or not (isinstance(pair[1], yaml.MappingNode) and pair[1].value)
            ):
                return _with_pair(text, place, pair, {name: nested(path[depth + 1 :], value)})
            place = pair[1]
        raise AssertionError("a path has at least one name")

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Cut the pair out (`Format.remove`), and with it the mappings that would be empty then."""
        place: yaml.Node | None = _root(text)
        cut: tuple[yaml.MappingNode, tuple[yaml.Node, yaml.Node]] | None = None
        for name in path:
            if not isinstance(place, yaml.MappingNode) or (pair := _pair(place, name)) is None:
                return text
            if cut is None or len(place.value) > 1:
                cut = place, pair
            place = pair[1]
        assert cut is not None
        mapping, (key, node) = cut
        start, end = key.start_mark.index, _pair_end(key, node)
        if not mapping.flow_style:
            return text[: text.rfind("\n", 0, start) + 1] + text[_line_end(text, end) :]
        position = mapping.value.index((key, node))
        if position:
            return text[: mapping.value[position - 1][1].end_mark.index] + text[end:]
        return text[:start] + text[mapping.value[1][0].start_mark.index :]


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


def _with_pair(
    text: str, into: yaml.MappingNode, old: tuple[yaml.Node, yaml.Node] | None, new: Mapping[str, object]
) -> str:
    """Write a pair in the place of another, or behind the last one."""
    key, node = old or into.value[-1]
    end = _pair_end(key, node)
    if into.flow_style:
        written = json.dumps(new)[1:-1]
        head = f"{text[:end]}, " if old is None else text[: key.start_mark.index]
        return head + written + text[end:]
    newline, line_end = newline_of(text), _line_end(text, end)
    block = _block(new, " " * into.value[0][0].start_mark.column, newline)
    if old is None:
        return _ended(text[:line_end], newline) + block + text[line_end:]
    # The key stays as it is written, and so does a comment behind it or its value.
    colon = text.index(":", key.end_mark.index)
    first, _, rest = block[block.index(":") :].partition(newline)
    return f"{text[:colon]}{first}{text[end:line_end].rstrip()}{newline}{rest}{text[line_end:]}"


def _pair_end(key: yaml.Node, node: yaml.Node) -> int:
    """Return where a pair's own text ends: a block's mark lies behind the blanks and comments after it."""
    end: int = key.end_mark.index
    # Else an alias: its marks are those of the value that it stands for.
    return end if node.start_mark.index < end else _node_end(node)


def _node_end(node: yaml.Node) -> int:
    end: int = node.end_mark.index
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _pair_end(*last) if isinstance(last, tuple) else _node_end(last)
    return end


def _line_end(text: str, position: int) -> int:
    """Return where the next line begins; a literal block ends there already."""
    if position and text[position - 1] == "\n":
        return position
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _block(value: object, indent: str, newline: str) -> str:
    """Return lines of YAML: one value a line, as goose writes them."""
    text = yaml.safe_dump(
        value, default_flow_style=False, sort_keys=False, allow_unicode=True, width=sys.maxsize
    )
    return textwrap.indent(text, indent).replace("\n", newline)


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline
