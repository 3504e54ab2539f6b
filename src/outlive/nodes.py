"""From settings to the backends of other servers: `node_backends`. Beside `app`, which has them routed to."""

import os
import stat
from collections.abc import Mapping

from outlive.backends.remote.backend import RemoteBackend
from outlive.backends.remote.folder import known_nodes
from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.node import NodeClient
from outlive.config import Settings
from outlive.config.access_settings import NODE_TOKEN
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.keeper.common.kernel import punch_hole


def node_backends(
    settings: Settings, layout: Layout, environ: Mapping[str, str] = os.environ
) -> dict[str, RemoteBackend]:
    """Return the backends of all nodes by name, those included that only have processes from before.

    Raises:
        ConfigInvalid: The file of the tokens cannot be used.
    """
    addresses = _addresses(settings)
    tokens = node_tokens(settings, environ)
    found: dict[str, RemoteBackend] = {}
    for name in dict.fromkeys((*addresses, *known_nodes(layout))):
        address = addresses.get(name)
        connection = None
        if address is not None:
            connection = NodeClient(
                address, token=tokens.get(name, ""), ca_file=settings.node_ca or None, world=AsyncioRuntime()
            )
        found[name] = RemoteBackend(
            name, connection, state_dir=layout.root, punch=punch_hole, address=address or ""
        )
    return found


def node_tokens(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the nodes' tokens by name, from the file and the environment.

    Raises:
        ConfigInvalid: The file cannot be read, others may read it, or a line is none.
    """
    tokens = _read_tokens(settings.node_tokens) if settings.node_tokens else {}
    for name in _addresses(settings):
        variable = NODE_TOKEN + "".join(mark if mark.isalnum() else "_" for mark in name).upper()
        if token := environ.get(variable, "").strip():
            tokens[name] = token
    return tokens


def _addresses(settings: Settings) -> dict[str, str]:
    return dict(one.split("=", 1) for one in settings.nodes)


def _read_tokens(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                text = f"{path} may be read by others: chmod 600 it."
                raise ConfigInvalid("config_invalid", text, hint="It holds tokens.")
            lines = [line.split() for line in file if line.strip() and not line.lstrip().startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("config_invalid", f"node_tokens: {path} cannot be read: {error}.") from error
    if any(len(words) != 2 for words in lines):
        raise ConfigInvalid("config_invalid", f"node_tokens: a line of {path} is not NAME TOKEN.")
    return {words[0]: words[1] for words in lines}
