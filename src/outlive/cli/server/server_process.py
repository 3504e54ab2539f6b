"""`outlive serve`, the part with the libraries loaded: event loop, readiness, signals and the last words."""

import asyncio
import contextlib
import functools
import gc
import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from socket import socket
from typing import Literal, cast

import uvloop
from starlette.types import ASGIApp

from outlive import __version__
from outlive.app import Application, redactor_of
from outlive.cli.output import say, show_json
from outlive.cli.server.keeper import Notifier
from outlive.config import EffectiveSetting, Settings, all_options
from outlive.core.layout import Layout
from outlive.discovery.ownership import Ownership
from outlive.discovery.server_lock import HAND_OVER
from outlive.discovery.state_folder import layout_of
from outlive.keeper.common.standard_files import keep_log_short
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_small, write_whole
from outlive.kernel.locks import holder_of
from outlive.observability.logs import logging_to
from outlive.server.http.http_server import serving
from outlive.server.http.listeners import Listeners, local_address
from outlive.server.http.tls import server_context

# Reference counts free nearly everything here; at the usual thresholds (700, 10, 10) looking for cycles takes
# 4 % of a busy server. So many objects that wait for the next look are some megabytes at most, and the look
# is 10 ms.
_THRESHOLDS = (25_000, 10, 5)


def collect_sometimes() -> None:
    """Spare what is there now, and look among what comes seldom enough that a busy server does not notice."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


_Service = Callable[[ASGIApp, Sequence[socket]], AbstractAsyncContextManager[None]]

# More than Python's default of some six: a thread that waits for a frozen disk is lost to all others.
_THREADS = 32
_FORCED = 130  # 128 + SIGINT, as shells count


def run_server(
    settings: Settings,
    layout: Layout,
    listeners: Listeners,
    *,
    working_folder: str,
    effective: Sequence[EffectiveSetting],
    is_self_started: bool,
) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code.

    Raises:
        OutliveError: Engine or doors could not be opened.
    """
    form = cast("Literal['auto', 'console', 'json']", settings.log_form)  # its parser knows these three
    redactor = redactor_of(settings)
    _write(layout, layout.extra_patterns, "\n".join(settings.redact_extra).encode())
    with (
        logging_to(
            settings.log_level,
            form=form,
            hide=redactor.mask_text,
            keep_short=functools.partial(keep_log_short, layout.server_log),
        ),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.get_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="outlive"))
        notifier = Notifier(os.environ)
        app = Application(
            settings, layout, working_folder=working_folder, ports=listeners.ports, effective=effective
        )
        tls = None
        if settings.tls_cert:
            tls = server_context(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        service = functools.partial(
            serving,
            max_message_bytes=settings.max_message_bytes,
            max_http_connections=settings.max_http_connections,
            tls=tls,
        )
        stop = functools.partial(_stop_signals, layout, with_purpose=not is_self_started)
        return runner.run(_serve(app, settings, layout, listeners, stop, notifier=notifier, service=service))


async def _serve(
    application: Application,
    settings: Settings,
    layout: Layout,
    listeners: Listeners,
    stop_signals: Callable[[], AbstractContextManager[asyncio.Future[bool]]],
    *,
    notifier: Notifier,
    service: _Service,
) -> int:
    with stop_signals() as stop:
        async with application as app:
            async with service(app.asgi, listeners.sockets):
                with _published(settings, layout, listeners):
                    _announce(settings, layout, listeners)
                    notifier.notify("READY=1", f"STATUS=Serves {layout.root}")
                    is_handed_over = await _stop_or_move(stop, app)
                    notifier.notify("STOPPING=1")
                    say("outlive: stopping (once more forces it).")
                    if settings.stop_processes and not is_handed_over:
                        await app.stop_processes()
                    app.hang_up()
            living = app.living_count
        say(_farewell(living))
    return 0


@contextlib.contextmanager
def _stop_signals(layout: Layout, *, with_purpose: bool) -> Iterator[asyncio.Future[bool]]:
    """Yield what the first SIGINT or SIGTERM sets, or a call to hand over (True).

    A second ends this process on the spot.

    That is safe at any time: whatever must survive us is on disk already, or with the keeper. A stop with a
    purpose is noted before anything is closed: clients that lose us must not start the next server. To a
    server that a client or the guardian has started a signal is none: a logout or a machine short of memory
    sends it. `outlive stop-server` notes the purpose itself.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[bool] = loop.create_future()

    def heed() -> None:
        if stop.done():
            say("outlive: forced; the processes live on.")
            os._exit(_FORCED)
        # Else the folder is gone, and another may be there.
        if with_purpose and holder_of(layout.server_lock) == os.getpid():
            Ownership(layout).note_stop()
        stop.set_result(False)

    def hand_over() -> None:
        if not stop.done():
            stop.set_result(True)

    handlers = {signal.SIGINT: heed, signal.SIGTERM: heed, HAND_OVER: hand_over}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield stop
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _stop_or_move(stop: asyncio.Future[bool], app: Application) -> bool:
    """Wait until this server is to end.

    Return whether another is to follow, as also where the state folder was moved.

    A client that looks for the folder at its new place is served by the next server; a deleted folder lies
    nowhere.
    """
    await asyncio.wait((stop, app.folder_moved), return_when=asyncio.FIRST_COMPLETED)
    if not stop.done():
        say(f"outlive: the state folder was moved to {app.folder_moved.result()}.")
        stop.set_result(True)
    return stop.result()


@contextlib.contextmanager
def _published(settings: Settings, layout: Layout, listeners: Listeners) -> Iterator[None]:
    """Keep server.json, which says to programs on this machine where the server listens, while the block
    runs.
    """
    port = listeners.ports.get("jsonrpc")
    name = settings.public_name[0] if settings.public_name else settings.host
    host = f"[{name}]" if ":" in name else name
    document = {
        "pid": os.getpid(),
        "version": __version__,
        "state_dir": layout.root,
        "ports": listeners.ports,
        # Where other servers reach it.
        "url": None if port is None else f"http{'s' if settings.tls_cert else ''}://{host}:{port}",
        "socket": layout.server_socket,
    }
    content = json.dumps(document).encode()
    _write(layout, layout.server_ports, content)
    try:
        yield
    finally:
        if read_small(layout.server_ports) == content:  # else another server's, where our folder was
            with contextlib.suppress(OSError):
                os.unlink(layout.server_ports)


def _write(layout: Layout, path: str, content: bytes) -> None:
    """Replace a file that others on this machine read.

    Where the disk takes nothing that is said, and all the rest goes on.
    """
    if read_small(path) == content:
        return
    try:
        Reserve(layout.root).fit(lambda: write_whole(path, content))
    except OSError as error:
        say(f"outlive: {path} cannot be written ({error.strerror}): it says what it did before.")


def _announce(settings: Settings, layout: Layout, listeners: Listeners) -> None:
    if settings.print_json:
        show_json({"pid": os.getpid(), "state_dir": layout.root, "ports": listeners.ports})
        return
    about = "it runs commands that outlive whoever asked for them"
    lines = [f"outlive {__version__} is ready (pid {os.getpid()}, state in {layout.root}): {about}."]
    page = local_address(listeners.ports, settings.host, has_tls=bool(settings.tls_cert))
    if page is not None:
        lines.append(f"  The page     {page}/   (`outlive ui` opens it; docs/web.md)")
    if settings.verbose:
        lines += _addresses(settings, layout, listeners.ports)
    if listeners.ports:
        lines.append(f"  Web pages    {_pages(settings)}")
    elsewhere = [] if layout.root == layout_of(None).root else ["--state-dir", shlex.quote(layout.root)]
    lines.append(f"Try: {' '.join(['outlive', *elsewhere, 'run -- echo hi'])}")
    lines.append("Ctrl-C stops the server; what runs lives on (--stop-processes ends it too).")
    say(*lines)


def _addresses(settings: Settings, layout: Layout, ports: Mapping[str, int]) -> list[str]:
    s = "s" if settings.tls_cert else ""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = [
        "  " + option.shown.format(s=s, address=f"{host}:{port}")
        for option in all_options()
        if option.kind == "port" and (port := ports.get(option.name.removesuffix("_port"))) is not None
    ]
    return [f"  Unix socket  {layout.server_socket}", *shown]


def _pages(settings: Settings) -> str:
    """Return what web pages in a browser may do here, in some words (promise S4.10)."""
    if settings.mcp_api_key:
        return "show the key or a token   (docs/access.md)"
    unknown = "show a token" if settings.hello_off else "of this machine may list the MCP tools, no more"
    if settings.allow_origin:
        return f"of {', '.join(settings.allow_origin)} act as you; others {unknown}   (docs/access.md)"
    return f"{unknown}; --allow-origin lets some act as you   (docs/access.md)"


def _farewell(living: int) -> str:
    if living == 0:
        return "outlive: the server has stopped; no process is left."
    counted = "1 process lives" if living == 1 else f"{living} processes live"
    return (
        f"outlive: the server has stopped; {counted} on. `outlive serve` finds them again, "
        "`outlive keeper stop --kill` ends them."
    )
