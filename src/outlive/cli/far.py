"""Another server for the command line: `outlive --host URL`, and the clients that talk to it or to the one of
this machine.

What was said stands in the environment (`OUTLIVE_HOST` and the others), so that programs that a verb starts
talk to the same one.
"""

import os
from collections.abc import Callable, Mapping

from outlive.cli.output import say
from outlive.client import Client
from outlive.core.errors import ConfigInvalid, InvalidRequest

HOST, TOKEN_FILE, CA_FILE = "OUTLIVE_HOST", "OUTLIVE_TOKEN_FILE", "OUTLIVE_CA"
_PATIENCE_S = 30.0


def use_server(*, host: str | None, token_file: str | None, ca: str | None) -> None:
    """Take what names another server into the environment; what is None stays as it is there."""
    if host is not None and "://" not in host:
        host = f"http://{host}"
    for name, value in ((HOST, host), (TOKEN_FILE, token_file), (CA_FILE, ca)):
        if value is not None:
            os.environ[name] = value


def far_url(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the address of the server that was asked for, None for that of this machine's state folder.

    Where `OUTLIVE_HOST` is no URL it is the address that a server listens on (`outlive serve --host`).

    Raises:
        ConfigInvalid: It is no address of a server.
    """
    text = environ.get(HOST, "")
    if "://" not in text:
        return None
    # Start-up time: the parsers of addresses come with all of the server's settings, and most calls are
    # local.
    from outlive.config.options import websocket_url  # noqa: PLC0415

    try:
        return websocket_url(text)
    except ValueError as error:
        raise ConfigInvalid("config_invalid", f"{HOST}: {error}.") from error


def a_client(
    state_dir: str | None,
    *,
    no_start: bool,
    say: Callable[[str], None] = say,
    patience_s: float = _PATIENCE_S,
) -> Client:
    """Return a client of the server that was asked for, else of the state folder's, which is started where
    none runs.
    """
    url = far_url()
    if url is None:
        return Client(state_dir, start_server=not no_start, say=say, patience_s=patience_s)
    return Client(url=url, token=_token(), ca_file=os.environ.get(CA_FILE) or None, patience_s=patience_s)


def check_verb(verb: str, *, is_local: bool) -> None:
    """Let a verb or a group pass that talks to a server; others work on files of this machine.

    Raises:
        InvalidRequest: It is one of these, and another server was asked for.
    """
    if is_local and (url := far_url()) is not None:
        text = f"`outlive {verb}` works on this machine only, and {url} was asked for."
        raise InvalidRequest("invalid_params", text, hint="Run it there, or leave out --host (OUTLIVE_HOST).")


def _token() -> str | None:
    path = os.environ.get(TOKEN_FILE)
    if not path:
        return None  # the client takes OUTLIVE_TOKEN
    from outlive.files.documents import MAX_TOKEN_BYTES, read_named  # noqa: PLC0415 -- start-up time

    try:
        return read_named(path, MAX_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("config_invalid", f"--token-file: {path} cannot be read: {error}.") from error
