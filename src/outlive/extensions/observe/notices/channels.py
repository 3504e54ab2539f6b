"""How a notice leaves: `Webhook` POSTs it to the operator's URL as JSON, `NotifyCommand` runs the operator's
program with it on its stdin.

No caller names or changes the URL or the program. A redirect is not followed, a certificate is verified, no
proxy is used, and of the answer only its first line is read: an endpoint that hangs, redirects or answers
without end costs a bounded time and 8 KiB. No shell reads the program's words. It runs below a helper
(`command_runner`), which ends the program's whole tree when the program ends, at the deadline, and when this
server is gone, however it went.
"""

import asyncio
import contextlib
import json
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from outlive import __version__
from outlive.extensions.observe.notices.notice import DEADLINE_S, Attempt, Notice, plain_line

_STATUS_LINE_BYTES = 8192
# Too early, too many (RFC 8470, RFC 6585) and a time-out of the receiver's own: the same request may be taken
# later.
_LATER = frozenset({408, 425, 429})


class Webhook:
    """A receiver of JSON. Each attempt is a connection of its own."""

    def __init__(self, url: str) -> None:
        """Take the operator's URL, as `config` has checked it."""
        # A path or query may hold the receiver's token, so the URL stands in no message, log line or repr.
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_secure = parts.scheme == "https"
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._authority = parts.netloc
        self._context: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        """What it is called in the log: the URL may hold a token."""
        return "webhook"

    async def deliver(self, notice: Notice) -> Attempt:
        """Try once. Cancellation: the receiver may have got it."""
        body = json.dumps(notice.payload(), ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(DEADLINE_S):
                status = await self._post(body, notice.id)
        # Each branch says what the operator can act on, and none of them quotes the URL.
        except TimeoutError:
            return Attempt("again", f"no answer within {DEADLINE_S:.0f} s")
        except ssl.SSLCertVerificationError as error:
            return Attempt("again", f"its certificate is not valid: {error.verify_message}")
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            return Attempt("again", f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}")
        if 200 <= status < 300:
            return Attempt("sent")
        # To follow one would send commands to a host that the operator has not named.
        if 300 <= status < 400:
            return Attempt("refused", f"status {status}: redirects are not followed")
        is_passing = status >= 500 or status in _LATER
        return Attempt("again" if is_passing else "refused", f"status {status}")

    async def _post(self, body: bytes, notice_id: str) -> int:
        """Send the request and return the status of its answer."""
        if self._is_secure and self._context is None:
            # Reads the machine's certificates: some ten milliseconds.
            self._context = await asyncio.to_thread(ssl.create_default_context)
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=_STATUS_LINE_BYTES
        )
        try:
            head = (
                f"POST {self._target} HTTP/1.1\r\nHost: {self._authority}\r\nUser-Agent: "
                f"outlive/{__version__}\r\n"
                f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
                f"Outlive-Notice: {notice_id}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode("ascii") + body)
            await writer.drain()
            words = (await reader.readuntil(b"\r\n")).split(None, 2)
        finally:
            writer.transport.abort()  # what the endpoint still says is not waited for
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise ValueError("its answer is no HTTP")
        return int(words[1])


_RUNNER = str(Path(__file__).with_name("command_runner.py"))
_END_S = 5.0  # for the helper, beyond the deadline, to end a tree; it takes milliseconds
_MAX_REASON = 200  # characters of the program's last line on stderr, in one line of the log
# What a program needs to find its user's files and the desktop. The server's environment holds keys and
# tokens, which are no business of the program and of what it starts.
_OF_USERS = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
_OF_DESKTOPS = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")


class NotifyCommand:
    """The operator's program."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = {
            name: environment[name] for name in (*_OF_USERS, *_OF_DESKTOPS) if name in environment
        }

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return "command"

    async def deliver(self, notice: Notice) -> Attempt:
        """Run it once. Cancellation: its tree is ended; it may have done its work."""
        body = json.dumps(notice.payload(), ensure_ascii=False).encode("utf-8", "replace")
        words = (sys.executable, "-I", "-S", _RUNNER, str(DEADLINE_S), *self._words, notice.title)
        try:
            runner = await asyncio.create_subprocess_exec(
                *words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:  # no memory, no pids
            return Attempt("again", f"it cannot be started: {error.strerror}")
        assert runner.stdin is not None
        assert runner.stdout is not None
        try:
            async with asyncio.timeout(DEADLINE_S + _END_S):
                runner.stdin.write(body + b"\n")
                said = (await runner.stdout.read()).decode(errors="replace")
                code = await runner.wait()
        except TimeoutError:
            return Attempt("again", "its processes do not end")
        finally:
            await _let_go(runner)
        if code == 0:
            return Attempt("sent")
        reason, _, stderr = said.partition("\n")
        last = plain_line(stderr)[:_MAX_REASON]
        return Attempt("again", f"{reason or 'the helper ended'}{': ' if last else ''}{last}")


async def _let_go(runner: Process) -> None:
    """End the helper: the end of its stdin is what tells it to end the program's tree and itself."""
    assert runner.stdin is not None
    runner.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            await runner.wait()
    with contextlib.suppress(ProcessLookupError):
        runner.kill()
