"""`make docs`: each link and anchor leads somewhere, no page is an orphan, and nothing comes from
elsewhere.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.site.__main__ import build, companions, sources, targets
from scripts.site.markdown import Renderer
from tests.docs.pages import ROOT
from tests.house.sources import tracked_files
from tests.site.built import Page, read_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site's folder."""
    folder = tmp_path_factory.mktemp("built") / "site"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Its pages by their addresses."""
    return read_site(site)


@pytest.mark.thorough
def test_every_page_of_the_repository_is_in_the_site(pages: dict[str, Page]) -> None:
    tracked = {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    wanted = {
        name for name in tracked if name.endswith(".md") and (name.startswith("docs/") or "/" not in name)
    }
    assert wanted <= set(sources())
    assert set(pages) == {targets()[name] for name in sources()}


def test_every_link_anchor_and_picture_is_there(site: Path, pages: dict[str, Page]) -> None:
    wrong = []
    count = 0
    for page in pages.values():
        for link in [*page.links, *page.loaded]:
            if (target := page.target(link)) is None:
                continue
            count += 1
            path, anchor = target
            if not (site / path).is_file() or (anchor and anchor not in pages[path].ids):
                wrong.append(f"{page.address}: {link}")
    assert wrong == []
    assert count > 1000


def test_no_page_is_an_orphan(pages: dict[str, Page]) -> None:
    """Every page can be reached by links in texts; the menu would lead to all that it lists without them."""
    reached, todo = {"index.html"}, ["index.html"]
    while todo:
        page = pages[todo.pop()]
        text = Page(page.address, page.text.partition('<nav id="menu"')[0])
        for target in filter(None, map(text.target, text.links)):
            if target[0] in pages and target[0] not in reached:
                reached.add(target[0])
                todo.append(target[0])
    assert set(pages) - reached == set()


def test_nothing_is_loaded_from_elsewhere_and_no_script_runs(site: Path, pages: dict[str, Page]) -> None:
    for page in pages.values():
        assert page.tags["script"] == page.tags["iframe"] == 0, page.address
        assert [address for address in page.loaded if page.target(address) is None] == [], page.address
    style = (site / "style.css").read_text()
    assert "url(" not in style
    assert "@import" not in style
    assert style.count("prefers-color-scheme: dark") >= 2


def test_a_page_says_what_it_is_to_readers_and_to_screen_readers(pages: dict[str, Page]) -> None:
    titles = set()
    for page in pages.values():
        assert page.tags["h1"] == 1, page.address
        assert page.tags["main"] == page.tags["nav"] == 1, page.address
        assert len(page.ids) == len(set(page.ids)), page.address
        assert len(page.described) == page.tags["img"], page.address
        assert all(page.described), page.address
        assert '<html lang="en">' in page.text
        assert "width=device-width" in page.text
        titles.add(page.text.partition("<title>")[2].partition("</title>")[0])
    assert len(titles) == len(pages)


def test_the_same_pages_make_the_same_site(site: Path, tmp_path: Path) -> None:
    build(tmp_path / "again")
    assert _content(tmp_path / "again") == _content(site)


def _content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def make(tmp_path: Path) -> Path:
    """A copy of what `make docs` needs, with this Python as its .venv."""
    copy = tmp_path / "clone"
    for folder in ("docs", "examples", "scripts", "requirements"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "Makefile", ROOT / "pyproject.toml"]:
        shutil.copy(path, copy)
    (copy / ".venv" / "bin").mkdir(parents=True)
    python = copy / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (copy / ".venv" / ".ready").touch()
    return copy


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_make_docs_builds_it_and_a_broken_link_ends_the_build(make: Path) -> None:
    built = _make(make)
    assert built.returncode == 0, built.stderr
    assert (make / "site" / "index.html").is_file()
    before = _content(make / "site")
    (make / "docs" / "cli.md").write_text("# Verbs\n\nSee [nothing](nothing.md).\n")
    broken = _make(make)
    assert broken.returncode != 0
    assert "docs/cli.md: nothing.md leads to nothing" in broken.stderr
    assert _content(make / "site") == before


def _make(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "docs", "ARGS="], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("kept")
    with pytest.raises(ValueError, match="holds something else"):
        build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def _render(text: str) -> str:
    renderer = Renderer(
        {"docs/a.md": "docs/a.html", "docs/b/README.md": "docs/b/index.html", "docs/b/": "docs/b/index.html"}
    )
    return renderer.render(f"# A\n\n{text}", name="docs/a.md").html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[b](b/README.md#x)", '<a href="b/index.html#x">b</a>'),
        ("see `docs/b/`", '<a href="b/index.html"><code>docs/b/</code></a>'),
        ("[`docs/b/`](b/README.md)", '<a href="b/index.html"><code>docs/b/</code></a>'),
        ("[out](https://example.org/x.md)", '<a href="https://example.org/x.md">out</a>'),
        ("## One `two` three!\n\n## One two three", '<h2 id="one-two-three-1">One two three</h2>'),
        ("| a |\n|---|\n| `x` |", '<div class="wide" tabindex="0"><table>'),
        ("<!-- made by us -->\n\nend", "<p>end</p>"),
        ("```console\n$ true\n```", '<pre><code class="language-console">'),
        ("```transcript\n<b>\n```", "&lt;b&gt;"),
    ],
)
def test_markdown_is_shown_as_on_github(text: str, shown: str) -> None:
    assert shown in _render(text)


@pytest.mark.parametrize(
    "text", ["[x](missing.md)", "see `docs/missing.md`", "![x](missing.svg)", "Bearer <key>", "<div>\n"]
)
def test_what_a_reader_would_miss_ends_the_build(text: str) -> None:
    with pytest.raises(ValueError, match=r"docs/a\.md"):
        _render(text)


def test_programs_that_pages_name_lie_in_the_site() -> None:
    assert "examples/survive.py" in companions()
    assert "docs/images/survive.svg" in companions()
