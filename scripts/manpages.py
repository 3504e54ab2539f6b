"""Write a manual page for every verb: `python -m scripts.manpages FOLDER` makes FOLDER/outlive-*.1.

They say what the help pages say, from the same declarations.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from outlive import __version__
from outlive.cli.help.examples import examples_of
from outlive.cli.help.man_page import man_page
from outlive.cli.program import NAME, Group, parameters_of, program


def pages(group: Group, path: str = NAME) -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page: of the program, of its groups, of every verb."""
    verbs = [(one.name, one.about) for one in group.verbs]
    yield (
        _file(path),
        man_page(path, group.about, parameters_of(group), version=__version__, verbs=verbs),
    )
    for one in group.verbs:
        called = f"{path} {one.name}"
        if isinstance(one, Group):
            yield from pages(one, called)
            continue
        page = man_page(
            called,
            one.explanation,
            one.action.parameters,
            version=__version__,
            examples=examples_of(called, one),
        )
        yield _file(called), page


def _file(path: str) -> str:
    return f"{path.replace(' ', '-')}.1"


def main(folder: Path) -> None:
    """Write all pages into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(program()):
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
