"""From Markdown to HTML as GitHub shows it: the same anchors, tables, and links to other pages. Pure.

`Renderer` knows which pages there are, and where a link of the repository leads in the site; what a page
looks like around its text is `template`'s.
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_OUTSIDE = re.compile(r"[a-z]+:", re.IGNORECASE)  # a scheme (RFC 3986, 3.1)
# A page that prose names in backticks: `docs/cli.md`, `SECURITY.md`, `docs/decisions/`.
_NAMED = re.compile(r"(?:docs/[\w./-]+|[A-Z]+\.md)\Z")
_COMMENT = re.compile(r"\s*<!--.*?-->\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading of a page, as its table of contents shows it; `level` is 1 to 6."""

    level: int
    anchor: str
    html: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A rendered page without its frame."""

    html: str
    headings: tuple[Heading, ...]

    @property
    def title(self) -> str:
        """The first heading."""
        return self.headings[0].text


@dataclass(slots=True)
class _Anchors:
    """The anchors that were given on one page: GitHub numbers those that come again."""

    given: dict[str, int] = field(default_factory=dict)

    def next(self, text: str) -> str:
        """Return the anchor of a heading: lower case, blanks are hyphens, and no other marks are left."""
        plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        times = self.given.get(plain, 0)
        self.given[plain] = times + 1
        return f"{plain}-{times}" if times else plain


class Renderer:
    """Renders the pages of one repository."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = targets
        self._parser = MarkdownIt("commonmark", {"highlight": _coloured}).enable("table")

    def render(self, source: str, *, name: str) -> Text:
        """Return a page; `name` is its file's, relative to the repository.

        Raises:
            ValueError: A link leads to nothing, or the page holds HTML other than comments.
        """
        tokens = self._parser.parse(source)
        anchors = _Anchors()
        headings = []
        for token in tokens:
            if token.type == "inline":
                token.children = [self._placed(child, name=name) for child in _linked(token.children or [])]
            elif token.type == "html_block":
                token.content = _without_comment(token.content, name=name)
        renderer = self._parser.renderer
        assert isinstance(renderer, RendererHTML)
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                inline = tokens[place + 1]
                text = _plain(inline)
                anchor = anchors.next(text)
                token.attrSet("id", anchor)
                html = re.sub(
                    r"</?a\b[^>]*>",
                    "",
                    renderer.renderInline(inline.children or [], self._parser.options, {}),
                )
                headings.append(Heading(level=int(token.tag[1]), anchor=anchor, html=html, text=text))
        html = renderer.render(tokens, self._parser.options, {})
        # A table that is wider than a phone is moved sideways by itself, not with the page; keys reach it,
        # too.
        html = html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace(
            "</table>", "</table></div>"
        )
        return Text(html=html, headings=tuple(headings))

    def _placed(self, token: Token, *, name: str) -> Token:
        """Return a part of a line whose links and pictures lead to where the site has them."""
        if token.type == "html_inline":
            token.content = _without_comment(token.content, name=name)
        for attribute in ("href", "src"):
            address = token.attrGet(attribute)
            if isinstance(address, str):
                token.attrSet(attribute, self._address(address, name=name, is_named=token.info == "named"))
        return token

    def _address(self, address: str, *, name: str, is_named: bool) -> str:
        if _OUTSIDE.match(address):
            return address
        path, hash_mark, anchor = address.partition("#")
        if not path:
            return address
        # Prose names a page from the repository's root on; a link, from the page's own folder on.
        wanted = path if is_named else posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        target = self._targets.get(wanted) or self._targets.get(f"{wanted.rstrip('/')}/")
        if target is None:
            raise ValueError(f"{name}: {address} leads to nothing")
        here = posixpath.dirname(self._targets[name])
        return posixpath.relpath(target, here or ".") + hash_mark + anchor


def _linked(children: list[Token]) -> list[Token]:
    """Return a line's parts with a link around each page that is named in backticks outside of a link."""
    made = []
    depth = 0
    for child in children:
        depth += child.nesting if child.type in {"link_open", "link_close"} else 0
        if depth == 0 and child.type == "code_inline" and _NAMED.match(child.content):
            opened = Token("link_open", "a", 1, attrs={"href": child.content}, info="named")
            made += [opened, child, Token("link_close", "a", -1)]
        else:
            made.append(child)
    return made


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


def _without_comment(content: str, *, name: str) -> str:
    """Return nothing for a comment; other HTML is a slip: GitHub would hide it, as `<key>` in a sentence."""
    if not _COMMENT.match(content):
        raise ValueError(f"{name}: HTML, or a placeholder without backticks: {content.strip()[:60]}")
    return ""


def _coloured(code: str, language: str, _attributes: str) -> str:
    """Return a block's content with the classes of its colours.

    A language that Pygments does not know stays plain.
    """
    try:
        lexer = get_lexer_by_name(unescapeAll(language) or "text")
    except ClassNotFound:
        return escape(code)
    coloured: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return coloured
