"""What the tests read from a Markdown page: code blocks, tables, sections, generated parts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# What would become HTML, and what stands in backticks, where nothing does.
_PLACEHOLDER = re.compile(r"(`[^`]*`)|<(?=[A-Za-z/!?])")
_CELL_BORDER = re.compile(r"(?<!\\)\|")


def page(name: str) -> str:
    """Return a page's text; `name` is relative to the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language, in their order."""
    return [match["text"] for match in _BLOCK.finditer(text) if match["language"] == language]


def section(text: str, heading: str) -> str:
    """Return what stands under a heading ("### `get`"), up to the next one of its level or above."""
    level = heading.index(" ")
    match = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"there is no heading {heading!r}"
    return match[1]


def table_rows(text: str, first_column: str) -> Iterator[list[str]]:
    """Yield the rows of the first table whose first column has that name."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            break
    else:
        raise AssertionError(f"there is no table of {first_column!r}")
    assert set(next(lines)) <= set("|- ")
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in _CELL_BORDER.split(line)[1:-1]]


def words(cell: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a placeholder like <key> stays text instead of becoming HTML."""
    lines = [columns, ["---"] * len(columns), *rows]
    shown = (" | ".join(_as_text(cell) for cell in line) for line in lines)
    return (
        "\n".join(f"| {line} |" for line in shown).replace("| --- ", "|---").replace("--- |", "---|") + "\n"
    )


def _as_text(cell: str) -> str:
    return _PLACEHOLDER.sub(lambda match: match[1] or r"\<", cell.replace("|", r"\|"))


def generated(text: str, name: str) -> str:
    """Return what stands between `<!-- name: … -->` and `<!-- end -->`."""
    match = re.search(rf"^<!-- {name}:.*?-->\n(.*?)^<!-- end -->$", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"there is no generated part {name!r}"
    return match[1]


def replace_generated(text: str, parts: Mapping[str, str]) -> str:
    """Return the page with its generated parts made anew."""
    for name, content in parts.items():
        old = generated(text, name)
        begin = re.search(rf"^<!-- {name}:.*?-->\n", text, re.MULTILINE)
        assert begin is not None
        text = text[: begin.end()] + content + text[begin.end() + len(old) :]
    return text
