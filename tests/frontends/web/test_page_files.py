"""The page's files and its shell: what is answered, to which callers, and what a browser is told about
them.
"""

import asyncio
import gzip
import posixpath
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Router

from outlive.core.layout import Layout
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.frontends.web.door import WebFrontend
from outlive.frontends.web.page_files import read_page_files
from outlive.policy.access import Access, Scope
from outlive.server.access.web_pages import wants_html
from outlive.server.http.front_page import JsonDocument
from tests.attacks.raw_http import RawReply, raw_request
from tests.frontends.serving import admitted, served


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Where the frontend answers a caller without any rights."""
    web = WebFrontend(
        Layout(str(tmp_path)),
        address=None,
        front=JsonDocument(lambda: {"name": "outlive"}),
        events=EventPublisher(),
    )
    nobody = Access(principal="", scope=Scope.HELLO)
    async with web, served(admitted(Router(web.routes()), nobody), tmp_path) as at:
        yield at.port


async def _get(port: int, target: str, *headers: str, verb: str = "GET") -> RawReply:
    return await asyncio.to_thread(raw_request, port, f"{verb} {target} HTTP/1.1", *headers)


def _accepts(*values: str) -> bool:
    return wants_html({"type": "http", "headers": [(b"accept", one.encode("latin-1")) for one in values]})


@pytest.mark.promise("U.shell")
def test_browsers_prefer_html_and_programs_do_not() -> None:
    chromium = (
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8,application/"
        "signed-exchange;v=b3;q=0.7"
    )
    for accept in (chromium, "text/html", "TEXT/HTML ; q=0.5", "text/*", "text/html, application/json;q=0.9"):
        assert _accepts(accept), accept
    for accept in (
        "",
        "*/*",
        "application/json",
        "application/json, text/html",
        "application/json, text/html;q=0.9",
        "text/html;q=0",
        "text/html;q=nan",
        "text/html;q=2",
        "text/html;q=-1",
        "*/*, text/html;q=0.1",
        "application/json, text/event-stream",
        "text/htmlx",
    ):
        assert not _accepts(accept), accept
    assert not _accepts()
    assert _accepts("application/json;q=0.1", "text/html;q=0.2")


@given(st.lists(st.text(alphabet=st.characters(max_codepoint=255)), max_size=3))
def test_no_accept_header_is_too_odd(values: list[str]) -> None:
    wants_html({"type": "http", "headers": [(b"accept", one.encode("latin-1")) for one in values]})


@pytest.mark.promise("U.shell")
async def test_the_same_address_gives_a_browser_the_page_and_a_program_json(port: int) -> None:
    page = await _get(port, "/", "Accept: text/html")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["vary"] == "accept"
    assert b"<script" in page.body
    assert b"<script>" not in page.body, "inline scripts are forbidden by the policy"
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'"):
        assert part in policy
    assert "script-src" not in policy, "scripts are the page's own alone, as default-src says"
    assert [part for part in policy.split("; ") if "unsafe" in part] == ["style-src 'self' 'unsafe-inline'"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    for accept in ("*/*", "application/json"):
        assert (await _get(port, "/", f"Accept: {accept}")).json == {"name": "outlive"}
    head = await _get(port, "/", "Accept: text/html", verb="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert (await _get(port, "/", "Accept: text/html", verb="POST")).status == 405


@pytest.mark.promise("U.files")
async def test_a_file_is_answered_packed_and_not_sent_twice(port: int) -> None:
    plain = await _get(port, "/ui/app.js")
    assert (plain.status, plain.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    packed = await _get(port, "/ui/app.js", "Accept-Encoding: br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    known = await _get(port, "/ui/app.js", f"If-None-Match: {plain.headers['etag']}")
    assert (known.status, known.body) == (304, b"")
    assert (await _get(port, "/ui/app.js", 'If-None-Match: "another"')).status == 200
    head = await _get(port, "/ui/app.js", verb="HEAD")
    assert (head.status, head.body, int(head.headers["content-length"])) == (200, b"", len(plain.body))


@pytest.mark.promise("U.files")
@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/../pages/session.html",
        "/ui/%2e%2e/pages/session.html",
        "/ui/..%2fpages%2fsession.html",
        "/ui/%2e%2e%2f%2e%2e%2fdoor.py",
        "/ui//etc/passwd",
        "/ui/%2fetc%2fpasswd",
        "/ui/app.js%00.css",
        "/ui/app.js/",
        "/ui/./app.js",
        "/ui/APP.JS",
        "/ui/__init__.py",
    ],
)
async def test_no_path_leads_out_of_the_pages_files(port: int, path: str) -> None:
    answer = await _get(port, path)
    assert answer.status == 404, answer
    assert answer.json["error"] == "unknown_path"


async def test_the_shell_names_every_module_and_style_that_the_page_needs_at_once(port: int) -> None:
    """Else a browser learns of each level of imports when the one before has come."""
    text = (await _get(port, "/", "Accept: text/html")).body.decode()
    told = re.findall(r'<link rel="(?:modulepreload|stylesheet)" href="(/ui/[^"]+)">', text)
    assert len(told) == len(set(told))
    assert {"/ui/log/log_view.js", "/ui/base/ui.js", "/ui/vendor/preact.mjs", "/ui/style.css"} <= set(told)
    # What is loaded when it is wanted is not loaded before.
    assert "/ui/vendor/xterm.mjs" not in told
    for path in told:
        found = await _get(port, path)
        assert found.status == 200, path
        folder = path.rpartition("/")[0]
        for other in re.findall(r'\bfrom\s*"([^"]+)"', found.body.decode()):
            assert posixpath.normpath(f"{folder}/{other}") in told, (path, other)


def test_the_page_is_small() -> None:
    """Everything that a browser may load of it, packed: under 400 KB."""
    found = read_page_files()
    assert {"app.js", "style.css", "session.js", "base/token.js"} <= set(found)
    assert sum(len(one.packed) for one in found.values()) < 400_000
