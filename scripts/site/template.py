"""What stands around each page of the site: the head, the menu, the page's own contents, and the style. Pure.

No script, no picture and no font of another place: a page works from a disk, without a network, on a phone,
in the dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from posixpath import dirname, relpath

from pygments.formatters import HtmlFormatter

from scripts.site.markdown import Heading, Text

_STYLE = Path(__file__).with_name("style.css")
_FEWEST_CONTENTS = 3  # a page of two sections needs no list of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the menu: a page with its address in the site, or, without one, the name of a group of
    pages.
    """

    text: str
    address: str = ""


def frame(text: Text, *, address: str, menu: Sequence[Entry]) -> str:
    """Return a whole page; `address` is its own in the site."""
    here = dirname(address) or "."
    # Pages of two folders may have one title: "Access", and the decisions about it.
    folder = dirname(address).removeprefix("docs").strip("/")
    title = " · ".join(dict.fromkeys(part for part in (text.title, folder, "outlive") if part))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{relpath("style.css", here)}">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header><a href="{relpath("index.html", here)}">outlive</a> <a href="#menu">Menu</a></header>
<main id="text">
{_with_contents(text)}</main>
<nav id="menu" aria-label="Pages">
{_menu(menu, address=address, here=here)}</nav>
</body>
</html>
"""


def _with_contents(text: Text) -> str:
    """Return the text with the list of its sections below its title."""
    title, end, rest = text.html.partition("</h1>\n")
    return title + end + _contents(text.headings) + rest


def _contents(headings: Sequence[Heading]) -> str:
    """Return the list of a page's sections, closed until it is asked for."""
    sections = [heading for heading in headings if heading.level == 2]
    if len(sections) < _FEWEST_CONTENTS:
        return ""
    rows = "".join(f'<li><a href="#{heading.anchor}">{heading.html}</a></li>\n' for heading in sections)
    return f'<details class="contents"><summary>On this page</summary>\n<ul>\n{rows}</ul></details>\n'


def _menu(menu: Sequence[Entry], *, address: str, here: str) -> str:
    """Return the menu: groups with their pages; the page that is shown says so."""
    rows = []
    is_open = False
    for entry in menu:
        if not entry.address:
            rows.append(("</ul>\n" if is_open else "") + f"<h2>{escape(entry.text)}</h2>\n<ul>\n")
            is_open = True
            continue
        current = ' aria-current="page"' if entry.address == address else ""
        rows.append(f'<li><a href="{relpath(entry.address, here)}"{current}>{escape(entry.text)}</a></li>\n')
    return "".join(rows) + ("</ul>\n" if is_open else "")


def style() -> str:
    """Return the style sheet, with the colours of code for a light and for a dark page."""
    light, dark = map(_colours, ("xcode", "github-dark"))
    return (
        f"{_STYLE.read_text(encoding='utf-8')}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    )


def _colours(name: str) -> str:
    """Return one of Pygments' styles: its rules for words.

    Grounds and line numbers are not its to choose here.
    """
    rules = HtmlFormatter(style=name).get_style_defs("pre code").splitlines()
    return "\n".join(rule for rule in rules if rule.startswith("pre code ."))
