"""docs/comparison.md as data: what each program does, and how that is known.

README.md's table is made from it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.pages import page, section, table, table_rows

PAGE = "docs/comparison.md"
ANSWERS = ("yes", "partly", "no")
# What a reader sees at a glance, and a screen reader says.
_SHOWN = {"yes": "**yes**", "partly": "partly", "no": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One answer about one program."""

    subject: str
    program: str
    answer: str
    source: str


def cells() -> Iterator[Cell]:
    """Yield the page's answers, by section and row."""
    text = page(PAGE)
    for subject in re.findall(r"^## (.*)$", text, re.MULTILINE):
        for program, answer, source in table_rows(section(text, f"## {subject}"), "program"):
            yield Cell(subject=subject, program=program, answer=answer, source=source)


def readme_table() -> str:
    """Return the table of README.md: a row a section of the page, a column a program."""
    rows: dict[str, dict[str, str]] = {}
    for cell in cells():
        rows.setdefault(cell.subject, {})[cell.program] = _SHOWN[cell.answer]
    programs = list(next(iter(rows.values())))
    return table(
        ["", *programs],
        [[subject, *(answers[program] for program in programs)] for subject, answers in rows.items()],
    )
