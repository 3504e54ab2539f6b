"""`outlive serve`, the part before anything heavy is imported: settings, state folder, lock, listening sockets.

The order is the point: clients can connect (and wait in the backlog) some 60 ms after the start, while the web
libraries are still being imported and the keeper starts beside them.
"""

import contextlib
import gc
import os
import resource
import threading
from collections.abc import Mapping

from outlive.cli.output import say
from outlive.cli.reach import check_reach
from outlive.config import Resolution, Settings, misspelt_names, resolve
from outlive.core.errors import ConfigInvalid, OutliveError
from outlive.core.layout import Layout
from outlive.frontends.listeners import Listeners
from outlive.keeper.spawn import remember_soft_limit
from outlive.presence.config_files import read_config_files
from outlive.presence.keeper import ensure_keeper
from outlive.presence.state_folder import ServerLock, open_state_folder, working_folder

__all__ = ["serve"]


def serve(flags: Mapping[str, str]) -> int:
    """Run the server until it is stopped; return the exit code.

    Args:
        flags: Option name to text, as given on the command line.

    Raises:
        ConfigInvalid: A setting, the state folder or a port asked for by name cannot be used, or another server
            serves this state folder.
    """
    folder = working_folder()
    files = read_config_files(os.environ, working_folder=folder, say=say)
    resolution = resolve(flags, os.environ, working_folder=folder, files=files)
    for name, meant in misspelt_names(os.environ):
        say(f"outlive: {name} is not a setting; did you mean {meant}?")
    layout = open_state_folder(resolution.settings.state_dir)
    check_reach(resolution.settings, layout)
    _check_tls(resolution.settings)
    _allow_many_descriptors()
    with ServerLock(layout), Listeners() as listeners:
        listeners.add_unix(layout.server_socket)
        _open_ports(listeners, resolution)
        _start_keeper_meanwhile(layout)
        # Collecting garbage while importing costs a tenth of the time and finds nothing.
        gc.disable()
        from outlive.cli.garbage import collect_sometimes  # noqa: PLC0415 -- start-up time: after the sockets listen
        from outlive.cli.running import run_server  # noqa: PLC0415 -- as above

        collect_sometimes()
        return run_server(resolution.settings, layout, listeners, working_folder=folder)


def _allow_many_descriptors() -> None:
    """Raise the soft limit: a thousand connections and the logs of a thousand processes are more than the usual 1024.

    Commands keep the one that this server was started with.
    """
    remember_soft_limit()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_tls(settings: Settings) -> None:
    """See that TLS can be spoken while nobody waits yet; the context itself is made with the event loop."""
    if settings.tls_cert:
        from outlive.frontends.tls import server_context  # noqa: PLC0415 -- start-up time: ssl takes 10 ms

        server_context(settings.tls_cert, settings.tls_key, settings.tls_client_ca)


def _open_ports(listeners: Listeners, resolution: Resolution) -> None:
    settings = resolution.settings
    ports = {
        "jsonrpc": settings.jsonrpc_port,
        "mcp": settings.mcp_port,
        "rest": settings.rest_port,
        "bridge": settings.bridge_port,
    }
    for door, port in ports.items():
        if port is None:
            continue
        option = f"{door}_port"
        try:
            listeners.add_port(door, settings.host, port)
        except ConfigInvalid as error:
            flag = f"--{door}-port"
            if resolution.sources[option] != "default":
                raise ConfigInvalid(
                    error.code,
                    error.message,
                    hint=f"Choose another one: {flag} N, or {flag} 0 for any free one.",
                ) from error
            say(f"outlive: {error.message} Skipped: {door} is not reachable there ({flag} chooses another).")


def _start_keeper_meanwhile(layout: Layout) -> None:
    """Start the keeper beside our imports: it takes 30 ms on another core. The engine makes sure of it again."""

    def start() -> None:
        with contextlib.suppress(OutliveError, OSError):
            ensure_keeper(layout.root)

    threading.Thread(target=start, name="keeper-start", daemon=True).start()
