"""docs/README.md leads to every page, and each page begins with what it lets its reader do."""

import re

import pytest

from tests.docs.pages import ROOT, page, section

_INDEX = page("docs/README.md")
_LINK = re.compile(r"\]\(([^)#]+)\)")


def _links() -> list[str]:
    return [
        (ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix() for target in _LINK.findall(_INDEX)
    ]


def test_the_index_leads_to_every_page_once() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    pages |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*/README.md")}
    pages |= {"CONTRIBUTING.md", "SECURITY.md"}
    assert sorted(_links()) == sorted(pages - {"docs/README.md"})


@pytest.mark.parametrize("task", ["Give an agent a shell", "Run my services", "Embed it", "Operate it"])
def test_a_task_has_a_few_pages_and_says_what_each_is_good_for(task: str) -> None:
    """More than six would have to be read before one is chosen."""
    begin, *rows = section(_INDEX, f"## {task}").split("\n* ")
    assert re.search(r"^Begin with `", begin, re.MULTILINE)
    assert 3 <= len(rows) <= 6
    for row in rows:
        assert re.match(r"\[[^\]]+\]\(\S+\.md\): \w+[ ,]", row), row


def test_every_page_opens_with_a_sentence_before_its_first_section() -> None:
    """A title, then prose: a page that opens with a table or a list says nothing about what it is for."""
    for name in _links():
        title, _, rest = page(name).partition("\n\n")
        assert re.fullmatch(r"# \S.*", title), name
        opening = rest.partition("\n\n")[0]
        assert re.match(r"[A-Z`*]", opening), f"{name}: {opening[:60]}"
        assert len(opening.split()) >= 7, f"{name}: {opening}"
