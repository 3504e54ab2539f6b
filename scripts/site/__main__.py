"""Build the documentation as a site: `python -m scripts.site [--into FOLDER]`; `make docs` does.

Every page of docs and the pages beside the README become HTML at the same place; what they link to otherwise
(pictures, examples) lies there as it is. Nothing is fetched, and a link that leads to nothing ends the build.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.site.markdown import Renderer
from scripts.site.template import Entry, frame, style

ROOT = Path(__file__).resolve().parents[2]
_FRONT = "docs/README.md"
_LINK = re.compile(r"^\* \[([^\]]+)\]\(([^)#]+)\)", re.MULTILINE)


def sources() -> list[str]:
    """Return the Markdown files of the site, relative to the repository."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def companions() -> list[str]:
    """Return the other files that pages may link to: they lie in the site as they are."""
    found = [
        path
        for folder in ("docs", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".md" and "__pycache__" not in path.parts
    ]
    return sorted(path.relative_to(ROOT).as_posix() for path in [*found, ROOT / "LICENSE"])


def targets() -> dict[str, str]:
    """Return where each file of the repository is in the site; a folder is the page that describes it."""
    made = {name: name for name in companions()}
    for name in sources():
        folder, slash, file = name.rpartition("/")
        stem = "index" if file == "README.md" else file.removesuffix(".md")
        made[name] = f"{folder}{slash}{stem}.html"
        if stem == "index":
            made[f"{folder}/"] = made[name]
    return made


def menu(front: str) -> Iterator[Entry]:
    """Yield the menu, in the order of the front page: its text is `front`."""
    yield Entry(text="Start")
    yield Entry(text="What it is", address="index.html")
    yield Entry(text="All pages, by task", address="docs/index.html")
    for part in re.split(r"^## ", front, flags=re.MULTILINE)[1:]:
        yield Entry(text=part.partition("\n")[0])
        for text, link in _LINK.findall(part):
            name = (ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix()
            yield Entry(text=text, address=targets()[name])
    yield Entry(text="What changed", address="CHANGELOG.html")


def build(into: Path) -> int:
    """Write the site into a folder, which is made anew; return how many pages it has.

    Raises:
        ValueError: The folder holds something else, or a page has a link that leads to nothing, or HTML in
        its text.
    """
    if into.exists() and any(into.iterdir()) and not (into / "style.css").exists():
        raise ValueError(f"{into} holds something else; a site takes a folder of its own")
    places = targets()
    renderer = Renderer(places)
    entries = list(menu((ROOT / _FRONT).read_text(encoding="utf-8")))
    # All pages are rendered before the first file is written: a site is whole, or stays what it was.
    pages = {
        places[name]: frame(
            renderer.render((ROOT / name).read_text(encoding="utf-8"), name=name),
            address=places[name],
            menu=entries,
        )
        for name in sources()
    }
    shutil.rmtree(into, ignore_errors=True)
    for address, text in {**pages, "style.css": style()}.items():
        (into / address).parent.mkdir(parents=True, exist_ok=True)
        (into / address).write_text(text, encoding="utf-8")
    for name in companions():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, into / name)
    return len(pages)


def main() -> int:
    """Build, and say where it is."""
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("--into", type=Path, default=ROOT / "site", help="the folder (%(default)s)")
    into: Path = parser.parse_args().into
    try:
        count = build(into)
    except ValueError as error:
        sys.stderr.write(f"docs: {error}\n")
        return 1
    sys.stdout.write(f"{count} pages: {into / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
