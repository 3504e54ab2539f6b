"""The page of outlive's own: its shell at /, its files, and how the user of this machine opens it
(`WebFrontend`, decision 200).

The shell holds no data: whatever the page shows it asks for at the public doors, with a token. The user gets
one so:

1. `outlive ui` asks for a file, over the state folder's Unix socket (`POST /ui/codes`). In the file is a form
   with a code.
2. A browser opens the file, which sends the code (`POST /ui/session`). The code is the authority there, and
   counts once.
3. The answer is a document with a token, which a script of ours moves into the window's own storage
   (`assets/session.js`).

The token is an ordinary one, in the file of tokens: it outlives this server, is listed, and can be revoked.
The guard lets exactly that form pass although its Origin is null (`server.access.web_pages`), but no command
of ours, and no forwarded request.

`PageCodes` are kept as hashes, for a minute, so that nobody who reads the server's memory later has a code.
`OpenerFiles` are the files that send them: a browser is started with a file's path, so no code is in the
words of any program, which every user of the machine can read, and none in an address.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from html import escape
from types import TracebackType
from typing import Annotated, Literal, Self
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from outlive.core.errors import AccessDenied, BackendUnavailable, InvalidRequest, OutliveError
from outlive.core.events import AuditEvent
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.frontends.web.page_files import PageFiles, page_text, send_document
from outlive.kernel.files import write_whole
from outlive.operations.requests import decode_request
from outlive.operations.table import OPERATIONS
from outlive.policy.access import GRANTED_SCOPES, Access, Scope, Token, digest_of
from outlive.server.access.guard import access_of
from outlive.server.access.web_pages import CODE_FORM, PAGE_FILES, is_code_form, wants_html
from outlive.server.error_formats import STATUS, send_error, send_json
from outlive.server.http.front_page import refuse_method
from outlive.store.token_file import TokenFile

# long enough for a browser that has to start, short enough that a file left lying about is worth nothing
LIFE_S = 60.0
_MOST = 32  # unused codes at a time: beyond that the oldest one counts no more


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCode:
    """One code that was given out: the scope of its page, and until when it counts."""

    digest: str
    scope: Scope
    ends_at: float


class PageCodes:
    """The codes that still count."""

    def __init__(self) -> None:
        self._codes: dict[str, PageCode] = {}  # by digest, oldest first

    def add(self, code: str, scope: Scope, *, now: float) -> PageCode:
        """Let `code`, which is drawn at random, open one page with that scope."""
        made = PageCode(digest=digest_of(code), scope=scope, ends_at=now + LIFE_S)
        self._codes[made.digest] = made
        if len(self._codes) > _MOST:
            del self._codes[next(iter(self._codes))]
        return made

    def take(self, code: str, *, now: float) -> PageCode | None:
        """Return what a code opens, this once; None for one that is unknown, was used, or has ended."""
        # Found by its hash: how long that takes shows nothing of the code.
        found = self._codes.pop(digest_of(code), None)
        return None if found is None or found.ends_at <= now else found

    def forget_ended(self, *, now: float) -> None:
        """Drop the codes that have ended."""
        self._codes = {digest: one for digest, one in self._codes.items() if one.ends_at > now}

    @property
    def digests(self) -> frozenset[str]:
        """The hashes of all that still count, as far as they have not ended meanwhile."""
        return frozenset(self._codes)

    @property
    def next_end(self) -> float | None:
        """When the first one ends; None while there is none."""
        return min((one.ends_at for one in self._codes.values()), default=None)


_logger = logging.getLogger(__name__)
_NAME_LETTERS = 32  # of the hash: 128 bits name one code
_SUFFIX = ".html"


class OpenerFiles:
    """The folder of these files; the server alone writes there."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.ui

    def write(self, digest: str, code: str, address: str) -> str:
        """Write the file of a code, whose form goes to the server's `address`, and return its path.

        Raises:
            OSError: The disk takes nothing.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, mode=0o700)
        text = page_text("opener.html").format(
            action=escape(f"{address}{CODE_FORM}", quote=True), code=escape(code, quote=True)
        )
        path = self._path(digest)
        write_whole(path, text.encode())  # made with the mode 0600
        return path

    def keep_only(self, digests: Collection[str]) -> None:
        """Remove the files of all other codes, those of an earlier server included.

        What cannot be removed is logged, and tried again the next time: such a file is worth nothing, since
        its code counts no more.
        """
        kept = {os.path.basename(self._path(one)) for one in digests}
        try:
            found = set(os.listdir(self._folder))
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("the openers of the page cannot be listed", extra={"reason": error.strerror})
            return
        for name in found - kept:
            try:
                os.unlink(f"{self._folder}/{name}")
            except FileNotFoundError:
                pass
            except OSError as error:
                _logger.warning("an opener of the page cannot be removed", extra={"reason": error.strerror})

    def _path(self, digest: str) -> str:
        return f"{self._folder}/{digest[:_NAME_LETTERS]}{_SUFFIX}"


CODES_PATH = f"{PAGE_FILES}codes"
TOKEN_LIFE = timedelta(hours=12)  # a working day: what is left open over night asks for another code
_MAX_BODY = 4096  # bytes: a code, or the word for a scope
_CODE_BYTES = 32  # 256 bits: cannot be guessed

_Serve = Callable[[AsgiScope, Receive, Send], Awaitable[None]]


class CodeRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`POST /ui/codes`."""

    scope: Annotated[
        Literal["read", "run", "admin"], msgspec.Meta(description="How much the page may do.")
    ] = "admin"


class WebFrontend:
    """The page. Serve `routes()` inside `async with door`, that inside `async with engine`."""

    def __init__(
        self,
        layout: Layout,
        *,
        address: str | None,
        front: ASGIApp,
        events: EventPublisher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build it; nothing is opened.

        Args:
            layout: The state folder.
            address: Where a browser of this machine reaches the server, as `http://127.0.0.1:8181`; None:
                nowhere.
            front: Answers at / to every caller that does not prefer HTML.
            events: Take what belongs in the audit log.
            clock: Monotonic seconds.
        """
        self._events = events
        self._tokens = TokenFile(layout)
        self._files = OpenerFiles(layout)
        self._address = address
        self._front = front
        self._clock = clock
        self._codes = PageCodes()
        self._page = PageFiles()
        self._has_codes = asyncio.Event()
        self._writing = asyncio.Lock()  # the files are those of the codes, whatever happens at once
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to remove files whose time is up."""
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.callback(group.create_task(self._sweep(), name="openers of the page").cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all of these files: their codes are forgotten with this server."""
        await self._stack.aclose()
        if self._codes.digests:
            await asyncio.to_thread(self._files.keep_only, ())

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [
            Route("/", _Application(self._shell)),
            Route(CODE_FORM, _Application(self._open, method="POST")),
            Route(CODES_PATH, _Application(self._make_code, method="POST")),
            Route(f"{PAGE_FILES}{{file:path}}", self._page),
        ]

    async def _shell(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer GET / with the page or with the JSON of every other caller."""
        if scope["method"] in {"GET", "HEAD"} and wants_html(scope):
            await send_document(scope, send, await self._page.shell())
            return
        await self._front(scope, receive, send)

    async def _make_code(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Make a file that opens the page, and answer with its path."""
        try:
            members = await self._made(access_of(scope), await _body(scope, receive))
        except OutliveError as error:
            status = STATUS[error.code]
            await send_error(
                scope, send, status=status, error=error.code, message=error.message, hint=error.hint
            )
            return
        await send_json(scope, send, status=201, body=members)

    async def _made(self, access: Access, body: bytes) -> dict[str, object]:
        access.require(OPERATIONS["ui_code"].scope)
        if not access.is_socket_user:
            raise AccessDenied(
                "scope_missing",
                (
                    "Only the user of this machine opens the page so, over the state folder's Unix socket "
                    "and without a token."
                ),
                hint=f"Open {self._address or 'the page'} and type the token there.",
            )
        wanted = GRANTED_SCOPES[decode_request(body or b"{}", CodeRequest).scope]
        access.require(wanted)
        if self._address is None:
            raise BackendUnavailable(
                "server_unavailable",
                "This server listens at no port that a browser could open.",
                hint="`outlive serve` opens ports.",
            )
        code = secrets.token_urlsafe(_CODE_BYTES)
        made = self._codes.add(code, wanted, now=self._clock())
        async with self._writing:
            await asyncio.to_thread(self._files.keep_only, self._codes.digests)
            path = await asyncio.to_thread(self._files.write, made.digest, code, self._address)
        self._has_codes.set()
        self._enter("ui_code", access, scope=wanted.name.lower())
        return {
            "file": path,
            "address": f"{self._address}/",
            "scope": wanted.name.lower(),
            "expires_s": LIFE_S,
        }

    async def _open(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer the form of such a file with a document that has the page's token."""
        found = None
        if is_code_form(scope):
            with contextlib.suppress(InvalidRequest):
                found = self._codes.take(_code_in(await _body(scope, receive)), now=self._clock())
        if found is None:
            await send_document(scope, send, await asyncio.to_thread(page_text, "refused.html"), status=403)
            return
        async with self._writing:
            await asyncio.to_thread(self._files.keep_only, self._codes.digests)
        text = await asyncio.to_thread(page_text, "session.html")
        # The token comes last: no error behind it leaves one that counts for hours and that no page has.
        token, secret = await asyncio.to_thread(self._token_of, found)
        self._enter("token_create", access_of(scope), token=token.name, scope=token.scope.name.lower())
        await send_document(scope, send, text.format(token=secret))

    def _token_of(self, code: PageCode) -> tuple[Token, str]:
        now = datetime.now(UTC)
        return self._tokens.create_for_page(code.scope, now=now, expires_at=now + TOKEN_LIFE)

    def _enter(self, what: str, access: Access, **details: str) -> None:
        self._events.publish(AuditEvent(what=what, by=access.owner("web"), details=details))

    async def _sweep(self) -> None:
        """Remove each file at the end of its minute."""
        while True:
            await self._has_codes.wait()
            end = self._codes.next_end
            if end is None:
                self._has_codes.clear()
                continue
            await asyncio.sleep(max(0.0, end - self._clock()))
            self._codes.forget_ended(now=self._clock())
            async with self._writing:
                await asyncio.to_thread(self._files.keep_only, self._codes.digests)


class _Application:
    """An ASGI application made of a coroutine function, which a route would take for a function of
    requests.
    """

    def __init__(self, serve: _Serve, *, method: str | None = None) -> None:
        """Let `serve` answer, where there is a `method` that one only."""
        self._serve = serve
        self._method = method

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if self._method in {None, scope["method"]}:
            await self._serve(scope, receive, send)
            return
        await refuse_method(scope, send, send_error, allowed=(self._method or "",))


async def _body(scope: AsgiScope, receive: Receive) -> bytes:
    """Return the body of a request.

    Raises:
        InvalidRequest: It is longer than any of ours.
    """
    content = bytearray()
    async for piece in Request(scope, receive).stream():
        content += piece
        if len(content) > _MAX_BODY:
            raise InvalidRequest("invalid_params", f"The body has more than {_MAX_BODY} bytes.")
    return bytes(content)


def _code_in(body: bytes) -> str:
    """Return the code of a form, "" where it has none (WHATWG URL, application/x-www-form-urlencoded)."""
    try:
        return parse_qs(body.decode("ascii"), max_num_fields=4).get("code", [""])[0]
    except ValueError:
        return ""
