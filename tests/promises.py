"""Every promise the product makes on the wire, as data: id, one sentence, and the door that keeps it.

The sentences stand in tests/promised, a module a door. A test names what it proves with
`@pytest.mark.promise("S0.6")`; tests/house/test_promises.py holds that every promise of a built door has a
test and that no test invents an id. Ids are stable: a promise may gain sub-ids ("S0.6.utf8"), it never
changes its meaning. S0 = JSON-RPC over WebSocket, S1 = command tools, S3 = terminal bridge, S4 = MCP and
process management, C = the Python client, R = REST, M = one endpoint for raw and official MCP clients, W =
words that mean the same everywhere, T = a terminal over WebSocket, A = access, F = faults of the machine, N =
notices, V = services, O = OpenTelemetry, U = the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tests.promised import (
    bridge,
    client,
    docker,
    fleet,
    jsonrpc,
    mcp,
    notices,
    rest,
    security,
    services,
    telemetry,
    terminal,
    terminals,
    web,
)

Door = Literal[
    "jsonrpc",
    "mcp",
    "rest",
    "bridge",
    "terminals",
    "client",
    "terminal",
    "docker",
    "security",
    "notices",
    "services",
    "telemetry",
    "web",
    "fleet",
]
DOORS: frozenset[str] = frozenset(get_args(Door))

# A door belongs here once it is built: from then on each of its promises needs a test.
BUILT_DOORS: frozenset[Door] = frozenset(
    {
        "jsonrpc",
        "mcp",
        "rest",
        "bridge",
        "terminals",
        "client",
        "terminal",
        "docker",
        "security",
        "notices",
        "services",
        "telemetry",
        "web",
        "fleet",
    }
)


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing a caller may rely on."""

    id: str
    sentence: str
    door: Door


_BY_DOOR: Mapping[Door, Mapping[str, str]] = {
    "jsonrpc": jsonrpc.SENTENCES,
    "mcp": mcp.SENTENCES,
    "rest": rest.SENTENCES,
    "bridge": bridge.SENTENCES,
    "terminals": terminals.SENTENCES,
    "client": client.SENTENCES,
    "terminal": terminal.SENTENCES,
    "docker": docker.SENTENCES,
    "security": security.SENTENCES,
    "notices": notices.SENTENCES,
    "services": services.SENTENCES,
    "telemetry": telemetry.SENTENCES,
    "web": web.SENTENCES,
    "fleet": fleet.SENTENCES,
}

PROMISES: tuple[Promise, ...] = tuple(
    Promise(promise_id, sentence, door)
    for door, sentences in _BY_DOOR.items()
    for promise_id, sentence in sentences.items()
)
