"""docs/decisions: every number that is cited is a section of one page, and the index names all of them."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.docs.pages import ROOT, page, table_rows
from tests.house.sources import tracked_files

_FOLDER = ROOT / "docs" / "decisions"
_INDEX = _FOLDER / "README.md"
_SECTION = re.compile(r"^## (\d+)\. \S", re.MULTILINE)
# "decision 62", "decisions 70 and 91", "decisions 50 to 54", also where a comment breaks the line in between.
_CITED = re.compile(r"\bdecisions?[\s#*/]+(\d+(?:(?:,| and| to)[\s#*/]+\d+)*)", re.IGNORECASE)
_FEWEST_WORDS = 40  # less than that is no reason; it belongs into another decision


def _sections() -> dict[str, list[int]]:
    """Return the numbers that each page holds."""
    return {
        path.name: [int(number) for number in _SECTION.findall(path.read_text(encoding="utf-8"))]
        for path in sorted(_FOLDER.glob("*.md"))
        if path != _INDEX
    }


def _citations() -> Iterator[tuple[str, int]]:
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue  # a picture, not a text
        for match in _CITED.finditer(content.decode(errors="replace")):
            for number in re.findall(r"\d+", match[1]):
                yield path.relative_to(ROOT).as_posix(), int(number)


def test_a_number_is_given_once() -> None:
    counted = Counter(number for numbers in _sections().values() for number in numbers)
    assert [number for number, times in counted.items() if times > 1] == []


def test_every_number_that_is_cited_is_a_section() -> None:
    known = {number for numbers in _sections().values() for number in numbers}
    cited = list(_citations())
    assert len(cited) > 100
    assert sorted({(number, name) for name, number in cited if number not in known}) == []


def test_the_index_names_each_page_and_its_numbers() -> None:
    listed = {}
    for row in table_rows(page("docs/decisions/README.md"), "page"):
        link = re.fullmatch(r"\[.+\]\((\S+)\)", row[0])
        assert link is not None, row
        listed[link[1]] = [int(number) for number in row[2].split(", ")]
    assert listed == {name: sorted(numbers) for name, numbers in _sections().items()}


def test_a_page_holds_decisions_and_says_what_they_cost() -> None:
    """A section without a price, or without a word on what would change it, is a note and no decision."""
    for name, numbers in _sections().items():
        text = (_FOLDER / name).read_text(encoding="utf-8")
        assert numbers, f"{name}: a page without a decision"
        for number, body in zip(
            numbers, re.split(_SECTION.pattern, text, flags=re.MULTILINE)[2::2], strict=True
        ):
            assert len(body.split()) >= _FEWEST_WORDS, f"{name}: {number}"
            assert re.search(r"\*\*(Price|How we would leave|What would change our mind|Choice)\b", body), (
                f"{name}: {number}"
            )
