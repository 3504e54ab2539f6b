"""`outlive serve`, the part before anything heavy is imported: settings, state folder, lock, listening
sockets.

The order is the point: clients can connect (and wait in the backlog) some 60 ms after the start, while the
web libraries are still being imported and the keeper starts beside them.

How far the server is reached: `check_reach` refuses to listen beyond this machine without TLS and something
to show.
"""

import contextlib
import gc
import os
import resource
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from outlive.cli.output import say
from outlive.cli.parameters import Parameter, about_option, switch, takes
from outlive.cli.parameters import option as flag
from outlive.config import (
    Option,
    Resolution,
    Settings,
    all_options,
    effective_settings,
    misspelt_names,
    resolve,
)
from outlive.config.options import parse_port, parse_words
from outlive.core.errors import BackendUnavailable, ConfigInvalid, OutliveError
from outlive.core.layout import Layout
from outlive.discovery.config_files import read_config_files
from outlive.discovery.keeper import check_program, ensure_keeper
from outlive.discovery.ownership import Ownership
from outlive.discovery.server import SELF_STARTED
from outlive.discovery.server_lock import ServerLock
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.keeper.common.spawn import remember_soft_limit
from outlive.kernel.calls import set_dumpable
from outlive.kernel.project import home_folder, working_folder
from outlive.server.http.listeners import Listeners
from outlive.store.token_file import TokenFile

_LOOPBACK = frozenset({"127.0.0.1", "::1"})


def check_reach(settings: Settings, layout: Layout) -> None:
    """Let settings pass that are safe with the address they listen on.

    Raises:
        ConfigInvalid: Beyond loopback without TLS, or without a token or a key; or TLS by half.
    """
    if bool(settings.tls_cert) != bool(settings.tls_key):
        text = "--tls-cert and --tls-key belong together."
        raise ConfigInvalid("config_invalid", text, hint="Name both, or neither.")
    if settings.tls_client_ca and not settings.tls_cert:
        text = "--tls-client-ca asks for certificates over TLS, and there is none."
        raise ConfigInvalid("config_invalid", text, hint="Name --tls-cert and --tls-key, too.")
    if settings.host in _LOOPBACK:
        return
    if not settings.tls_cert:
        text = (
            f"Listening on {settings.host} needs TLS: a program that can read the network could read "
            "tokens and output."
        )
        hint = (
            "Name --tls-cert and --tls-key, or listen on 127.0.0.1 and let ssh or a proxy forward. In a "
            "container, share its state folder or the host's network, and show a token made by "
            "`outlive token create` (docs/install.md)."
        )
        raise ConfigInvalid("config_invalid", text, hint=hint)
    now = datetime.now(UTC)
    has_token = any(not token.is_over(now) for token in TokenFile(layout).read())
    if not (has_token or settings.mcp_api_key):
        text = (
            f"Listening on {settings.host} needs a token: callers from there could not be let in, nor "
            "be told apart."
        )
        raise ConfigInvalid("config_invalid", text, hint="Make one first: `outlive token create`.")


_DECIDED = frozenset({"flag", "environment", "project"})  # the user's and the system's files are read again
_OF_THIS_START = frozenset({"state_dir", "print_json", "verbose"})  # no rule, and no door


def _parameter(option: Option) -> Parameter:
    about = about_option(option.sentence, option.env, "" if option.is_switch else option.default)
    if option.is_switch:
        return switch(option.flag, about=about, to=option.name)
    return flag(option.flag, metavar=option.kind.upper(), about=about, to=option.name)


# A server that a client starts is known by this word in its command line (`discovery.ownership`).
_SELF_STARTED = switch(SELF_STARTED, about="A client has started it.")._replace(is_hidden=True)


@takes(*map(_parameter, all_options()), _SELF_STARTED)
def serve(*, self_started: bool, **given: str | bool | None) -> int:
    """Run the server with the flags that were given."""
    flags = {
        name: "on" if value is True else str(value)
        for name, value in given.items()
        if value not in {None, False}
    }
    return run(flags, is_self_started=self_started)


def run(flags: Mapping[str, str], *, is_self_started: bool = False) -> int:
    """Run the server until it is stopped; return the exit code.

    Args:
        flags: Option name to text, as given on the command line.
        is_self_started: A client has started it: it obeys the settings of the folder's operator, and yields
            to an operator's.

    Raises:
        ConfigInvalid: A setting, the state folder or a port asked for by name cannot be used, or another
            server serves this state folder.
        BackendUnavailable: There is no program for the keeper.
    """
    # Collecting garbage while importing costs a tenth of the time and finds nothing; `collect_sometimes` has
    # it again.
    gc.disable()
    set_dumpable(is_dumpable=False)  # keys and tokens are in our environment and memory
    folder = working_folder()
    resolution = _resolution(flags, folder, is_self_started=is_self_started)
    for name, meant in misspelt_names(os.environ):
        say(f"outlive: {name} is not a setting; did you mean {meant}?")
    layout = open_state_folder(resolution.settings.state_dir)
    check_reach(resolution.settings, layout)
    _check_tls(resolution.settings)
    check_program(layout)
    _allow_many_descriptors()
    ownership = Ownership(layout)
    with ServerLock(layout, say=None if is_self_started else say), Listeners() as listeners:
        if not is_self_started:
            ownership.forget_stop()
        elif ownership.is_stopped:  # while this was starting: what started it has removed the mark before
            text = f"The server of {layout.root} was stopped on purpose while it started."
            raise BackendUnavailable("server_unavailable", text)
        listeners.add_unix(layout.server_socket)
        _open_ports(listeners, resolution)
        if not is_self_started:
            _remember(ownership, _decided(resolution, listeners, folder), folder)
        _start_keeper_meanwhile(layout)
        # Start-up time: what follows is imported after the sockets listen.
        from outlive.cli.server.server_process import collect_sometimes, run_server  # noqa: PLC0415

        collect_sometimes()
        if is_self_started:
            # Where its starter was says nothing about what others ask of it, and no file system is kept busy.
            folder = home_folder()
            os.chdir("/")
        return run_server(
            resolution.settings,
            layout,
            listeners,
            working_folder=folder,
            effective=effective_settings(resolution),
            is_self_started=is_self_started,
        )


def _resolution(flags: Mapping[str, str], folder: str, *, is_self_started: bool) -> Resolution:
    operator = None
    if is_self_started:
        operator = Ownership(layout_of(flags.get("state_dir"))).operator_settings()
    environ: Mapping[str, str] = os.environ if operator is None else operator.config
    return resolve(
        flags,
        environ,
        working_folder=folder,
        files=read_config_files(environ, working_folder=folder, say=say),
        remembered=None if operator is None else operator.settings,
    )


def _decided(resolution: Resolution, listeners: Listeners, folder: str) -> Mapping[str, str]:
    """Return what flags, environment and the project's file say, as a server that is started elsewhere needs
    it.
    """
    found = {}
    for option in all_options():
        origin = resolution.origins[option.name]
        if origin.source not in _DECIDED or option.name in _OF_THIS_START:
            continue
        found[option.name] = _absolute(option, origin.text, folder)
    left_out = {option.name for option in all_options() if option.is_secret and found.pop(option.name, "")}
    if "mcp_api_key" in left_out:
        # A key lies in no file. Without it a server could keep no caller out, so what a client starts opens
        # no ports.
        return found | dict.fromkeys((option.name for option in _ports()), "off")
    for door, port in listeners.ports.items():
        if found.get(f"{door}_port") == "0":  # a client that knows the door finds it there again
            found[f"{door}_port"] = str(port)
    return found


def _absolute(option: Option, text: str, folder: str) -> str:
    """Return an option's text with its paths absolute: elsewhere a relative one means another place."""
    match option.kind:
        case "file" | "folder" | "path" if text:
            return os.path.join(folder, text)
        case "folders":
            return option.separator.join(os.path.join(folder, word) for word in parse_words(text))
        case _:
            return text


def _remember(ownership: Ownership, decided: Mapping[str, str], folder: str) -> None:
    """Keep what servers that clients start have to obey.

    One that nothing can be written for serves all the same.
    """
    try:
        ownership.note_service(os.environ)
        ownership.remember(decided, os.environ, working_folder=folder)
    except OSError as error:
        say(
            f"outlive: these settings cannot be kept ({error.strerror}): a server that a client starts "
            "would have the ones before."
        )


def _allow_many_descriptors() -> None:
    """Raise the soft limit: a thousand connections and the logs of a thousand processes are more than the
    usual 1024.

    Commands keep the one that this server was started with.
    """
    remember_soft_limit()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_tls(settings: Settings) -> None:
    """See that TLS can be spoken while no client waits yet.

    The context itself is made with the event loop.
    """
    if settings.tls_cert:
        from outlive.server.http.tls import server_context  # noqa: PLC0415 -- start-up time: ssl takes 10 ms

        server_context(settings.tls_cert, settings.tls_key, settings.tls_client_ca)


def _ports() -> list[Option]:
    return [option for option in all_options() if option.kind == "port"]


def _open_ports(listeners: Listeners, resolution: Resolution) -> None:
    for option in _ports():
        origin = resolution.origins[option.name]
        port = parse_port(origin.text)
        if port is None:
            continue
        door = option.name.removesuffix("_port")
        instead = f" {option.if_taken}".rstrip()
        try:
            listeners.add_port(door, resolution.settings.host, port)
        except ConfigInvalid as error:
            if origin.source not in {"default", "operator"}:
                hint = f"Choose another one: {option.flag} N, or {option.flag} 0 for any free one.{instead}"
                raise ConfigInvalid(error.code, error.message, hint=hint) from error
            say(
                f"outlive: {error.message} Skipped: {door} is not reachable there ({option.flag} chooses "
                f"another).{instead}"
            )


def _start_keeper_meanwhile(layout: Layout) -> None:
    """Start the keeper beside our imports: it takes 30 ms on another core.

    The engine makes sure of it again.
    """

    def start() -> None:
        with contextlib.suppress(OutliveError, OSError):
            ensure_keeper(layout.root)

    threading.Thread(target=start, name="keeper-start", daemon=True).start()
