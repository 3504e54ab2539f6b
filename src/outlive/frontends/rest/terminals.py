"""/v1/terminals: list, open, look, run a command, read, type, resize, close (promise S3.6).

Each makes one terminal call.

The path names the terminal; the calls want it as a member of the request, as the other frontends send it.
"""

import asyncio
from collections.abc import Coroutine

import msgspec
from starlette.responses import Response

from outlive.core.errors import BackendUnavailable
from outlive.frontends.rest.routes import Members, RestCall, json_answer
from outlive.operations.answers import ExecutedView, ResizedTerminal, TypedView
from outlive.operations.controls import Resize
from outlive.protocols.rest.requests import OfTerminal, TerminalTextParameters
from outlive.protocols.terminal import requests
from outlive.protocols.terminal.requests import ExecuteRequest, InputRequest, NewTerminalRequest


async def list_(call: RestCall) -> Members:
    """List the open terminals."""
    return await call.context.terminals.list(requests.ListTerminals(), call.owner())


async def create(call: RestCall, body: NewTerminalRequest) -> Response:
    """Open a terminal and answer when it can be used."""
    wanted = requests.CreateTerminal(**msgspec.structs.asdict(body))
    members = await _in_time(call, call.context.terminals.create(wanted, call.owner()))
    return json_answer(members, 201, Location=f"/v1/terminals/{members['terminal_id']}")


async def get(call: RestCall, asked: OfTerminal) -> Members:
    """Describe a terminal."""
    return await call.context.terminals.get(asked.terminal_id, call.owner())


async def close(call: RestCall, asked: OfTerminal) -> Members:
    """Close a terminal: its shell and what runs in it end."""
    wanted = requests.CloseTerminal(terminal_id=asked.terminal_id)
    return await call.context.terminals.close(wanted, call.owner())


async def read(call: RestCall, asked: TerminalTextParameters) -> Members:
    """Return what a terminal shows, open or closed."""
    wanted = requests.ReadTerminal(**msgspec.structs.asdict(asked))
    return await call.context.terminals.read(wanted, call.owner())


async def execute(call: RestCall, asked: OfTerminal, body: ExecuteRequest) -> Members:
    """Run a command at the prompt and answer with its output and exit code, or that it still runs."""
    wanted = requests.ExecuteInTerminal(**msgspec.structs.asdict(body), terminal_id=asked.terminal_id)
    return await _in_time(call, call.context.terminals.execute(wanted, call.owner()))


async def write(call: RestCall, asked: OfTerminal, body: InputRequest) -> Members:
    """Type into a terminal, whatever runs there."""
    wanted = requests.WriteToTerminal(**msgspec.structs.asdict(body), terminal_id=asked.terminal_id)
    return await call.context.terminals.write(wanted, call.owner())


async def resize(call: RestCall, asked: OfTerminal, body: Resize) -> Members:
    """Set a terminal's size."""
    wanted = requests.ResizeTerminal(**msgspec.structs.asdict(body), terminal_id=asked.terminal_id)
    return await call.context.terminals.resize(wanted, call.owner())


# What is done to a terminal: the last word of its path, the operation, the handler and its answer.
VERBS = (
    ("execute", "terminal_execute", execute, ExecutedView),
    ("input", "terminal_write", write, TypedView),
    ("resize", "terminal_resize", resize, ResizedTerminal),
)


async def _in_time(call: RestCall, work: Coroutine[None, None, dict[str, object]]) -> dict[str, object]:
    """Return what work gives that may take long.

    Raises:
        BackendUnavailable: `server_lost`: the server stops meanwhile; what the call has begun goes on.
    """
    running = asyncio.ensure_future(work)
    if await call.first_of(running):
        return running.result()
    raise BackendUnavailable("server_lost", "The server stops; what runs in the terminal goes on.")
