"""The page's own files (`PageFiles`): read once from the package, packed by gzip once, and answered from
memory.

They are the same for every caller, hold no data, and lie below `PAGE_FILES`. A name is looked up among those
that were read, so no name leads anywhere else. What the page may do in a browser is said by `PAGE_HEADERS`,
which every answer of this frontend has.
"""

import asyncio
import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from importlib.abc import Traversable
from importlib.resources import files
from types import MappingProxyType

from starlette.types import Receive, Scope, Send

from outlive.core.values import dataclass
from outlive.server.access.web_pages import PAGE_FILES, values_of
from outlive.server.error_formats import Headers, send_error
from outlive.server.http.front_page import refuse_method

# What a browser lets the page do (W3C, "Content Security Policy Level 3"): it loads and asks this server
# alone, no page frames it, and what is smuggled into a text stays a text. xterm.js styles its lines by
# elements that it makes (decision 202).
PAGE_HEADERS: Headers = (
    (
        b"content-security-policy",
        (
            b"default-src 'self'; style-src 'self' 'unsafe-inline'; "
            b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_CHARSET = b"; charset=utf-8"
_TYPES = MappingProxyType(
    {
        ".css": b"text/css" + _CHARSET,
        ".js": b"text/javascript" + _CHARSET,
        ".mjs": b"text/javascript" + _CHARSET,
        ".svg": b"image/svg+xml",
    }
)
FIRST_MODULE = "app.js"
_IMPORT = re.compile(
    r'\bfrom\s*"(\.{1,2}/[^"]+)"'
)  # of a module that is loaded with its importer; `import()` has no `from`
# A browser asks again each time, and is answered 304: after an upgrade no old file runs beside new ones.
_CACHED: Headers = ((b"cache-control", b"no-cache"), (b"vary", b"accept-encoding"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """One file, plain and packed; `etag` is a strong validator of its content (RFC 9110, section 8.8.3)."""

    content_type: bytes
    body: bytes
    packed: bytes
    etag: bytes


class PageFiles:
    """An ASGI application that answers GET and HEAD with the files below `PAGE_FILES`."""

    def __init__(self) -> None:
        self._loading = asyncio.Lock()
        self._found: Mapping[str, PageFile] | None = None

    async def shell(self) -> str:
        """Return the page's document, which names the styles and the modules that a browser needs at once."""
        found = await self._loaded()
        return (await asyncio.to_thread(page_text, "index.html")).format(links=links_to(found))

    async def _loaded(self) -> Mapping[str, PageFile]:
        async with self._loading:
            if self._found is None:
                self._found = await asyncio.to_thread(read_page_files)
        return self._found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 -- ASGI
        """Serve one request."""
        if scope["method"] not in {"GET", "HEAD"}:
            await refuse_method(scope, send, send_error)
            return
        found = (await self._loaded()).get(scope["path"].removeprefix(PAGE_FILES))
        if found is None:
            text = f"There is nothing at {scope['path'][:100]}."
            await send_error(
                scope, send, status=404, error="unknown_path", message=text, hint="The page is at /."
            )
            return
        etag = found.etag
        if etag in ", ".join(values_of(scope, b"if-none-match")).encode("latin-1"):
            await _send(scope, send, 304, b"", ((b"etag", etag), *_CACHED))
            return
        headers = [(b"content-type", found.content_type), (b"etag", etag), *_CACHED]
        body = found.body
        if _takes_gzip(scope):
            body = found.packed
            headers.append((b"content-encoding", b"gzip"))
        await _send(scope, send, 200, body, headers)


async def send_document(scope: Scope, send: Send, text: str, *, status: int = 200) -> None:
    """Answer with an HTML document that no browser and no proxy keeps."""
    headers = (
        (b"content-type", b"text/html" + _CHARSET),
        (b"cache-control", b"no-store"),
        (b"vary", b"accept"),
    )
    await _send(scope, send, status, text.encode(), headers)


async def _send(scope: Scope, send: Send, status: int, body: bytes, headers: Headers) -> None:
    length = () if status == 304 else ((b"content-length", str(len(body)).encode()),)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, *length, *PAGE_HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _takes_gzip(scope: Scope) -> bool:
    """Tell whether a caller takes gzip.

    One that weighs it gets the plain file, which is never wrong (RFC 9110, section 12.5.3).
    """
    named = ",".join(values_of(scope, b"accept-encoding")).lower().split(",")
    return "gzip" in {one.strip() for one in named}


def page_text(name: str) -> str:
    """Return a document of this package; its places are filled by `str.format`. Blocking."""
    return files("outlive.frontends.web").joinpath("pages", name).read_text(encoding="utf-8")


def links_to(found: Mapping[str, PageFile]) -> str:
    """Return the links to every style and to every module that the page's first one imports, however many
    steps away.

    Without them a browser learns of each level of imports when the one before has come.
    """
    modules: list[str] = []
    names = [FIRST_MODULE]
    for name in names:
        folder = posixpath.dirname(name)
        for told in _IMPORT.findall(found[name].body.decode()):
            needed = posixpath.normpath(posixpath.join(folder, told))
            if needed not in names:
                names.append(needed)
                modules.append(needed)
    # The page's own styles last, where they count more than those of libraries.
    styles = sorted(
        (name for name in found if name.endswith(".css")), key=lambda name: not name.startswith("vendor/")
    )
    return "\n".join(
        [f'<link rel="stylesheet" href="{PAGE_FILES}{name}">' for name in styles]
        + [f'<link rel="modulepreload" href="{PAGE_FILES}{name}">' for name in modules]
    )


def read_page_files() -> dict[str, PageFile]:
    """Return the package's files that a browser may load, by their names below `PAGE_FILES`. Blocking."""
    return dict(_read(files("outlive.frontends.web").joinpath("assets"), ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for one in folder.iterdir():
        name = prefix + one.name
        content_type = _TYPES.get("." + one.name.rpartition(".")[2])
        if one.is_dir():
            found += _read(one, f"{name}/")
        elif content_type is not None:
            body = one.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
            # Without a time, so that the same content is the same file.
            packed = gzip.compress(body, compresslevel=9, mtime=0)
            found.append(
                (
                    name,
                    PageFile(content_type=content_type, body=body, packed=packed, etag=etag),
                )
            )
    return found
