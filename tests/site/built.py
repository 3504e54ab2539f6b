"""A page of the built site as a browser reads it: its links, its anchors, and what it would load."""

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

# What a browser fetches by itself; links are followed by people alone.
_LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("link", "href"), ("source", "src")}


@dataclass
class Page(HTMLParser):
    """One page; parsed when it is made."""

    address: str
    text: str
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    tags: Counter[str] = field(default_factory=Counter)
    described: list[str] = field(default_factory=list)  # the texts that stand for pictures

    def __post_init__(self) -> None:
        """Read it."""
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif (tag, name) in _LOADED:
                self.loaded.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif (tag, name) == ("img", "alt"):
                self.described.append(value or "")

    def target(self, link: str) -> tuple[str, str] | None:
        """Return the file in the site and the anchor that a link leads to; None where it leads out of the
        site.
        """
        parts = urlsplit(link)
        if parts.scheme:
            return None
        path = normpath(join(dirname(self.address), parts.path)) if parts.path else self.address
        return path, parts.fragment


def read_site(folder: Path) -> dict[str, Page]:
    """Return the pages of a built site by their addresses."""
    return {
        (address := path.relative_to(folder).as_posix()): Page(address, path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
