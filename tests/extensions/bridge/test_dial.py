"""The outgoing mode: the operator names extensions that listen, and the server dials them (promise S3.9)."""

import asyncio
import http
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tests.extensions.bridge.extension import DocumentExtension, Message
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.processes import poll_until
from tests.support.server import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


@asynccontextmanager
async def _listening(extension: DocumentExtension, port: int) -> AsyncIterator[None]:
    async with listen(extension.serve, "127.0.0.1", port, compression=None):
        yield


@pytest.mark.promise("S3.9")
async def test_the_same_messages_flow_the_other_way_and_it_dials_again(serve: ServerFactory) -> None:
    port, extension = free_port(), DocumentExtension()
    server = serve(OUTLIVE_BRIDGE_DIAL=f"ws://127.0.0.1:{port}/?token=olv_{'c' * 43}")
    door = Door(server)
    await poll_until(lambda: "does not answer" in server.stderr)
    assert (await door.refusal("create")).code == "no_terminal_host"
    async with _listening(extension, port):
        await extension.until(lambda: extension.connections == 1)  # 5 s at most, as an extension waits
        made = await door("create", name="Build Terminal")
        done = await door("execute", terminal_id=made["terminal_id"], command="npm run build")
        assert done["output"].startswith("Command executed: npm run build")
        assert extension.executed == [(made["terminal_id"], "npm run build")]
    # The first request may be what notices that the connection has ended.
    refusals = [(await door.refusal("create")).code for _ in range(2)]
    assert refusals in (["no_terminal_host"] * 2, ["extension_away", "no_terminal_host"])
    async with _listening(extension, port):
        await extension.until(lambda: extension.connections == 2)
        await door("execute", terminal_id=made["terminal_id"], command="again")
        await door("close", terminal_id=made["terminal_id"])
        assert extension.terminals == {}
    assert "c" * 43 not in server.stderr


@pytest.mark.promise("S3.9", "S3.4")
async def test_one_that_does_not_answer_pings_is_dialled_anew(serve: ServerFactory) -> None:
    port, extension = free_port(), _Mute()
    async with _listening(extension, port):
        server = serve(
            "--bridge-dial", f"ws://127.0.0.1:{port}", "--bridge-ping", "0.1", "--bridge-timeout", "0.3"
        )
        await extension.until(lambda: extension.connections == 2)
        assert "did not answer a ping" in server.stderr


class _Mute(DocumentExtension):
    """An extension that hears pings and says nothing."""

    def answers(self, _message: Message) -> list[str]:
        """Say nothing."""
        return []


@pytest.mark.promise("S3.9")
async def test_nobody_but_the_operator_says_where_to_dial(serve: ServerFactory) -> None:
    """A redirection is no place of the operator's; nor is what a project's file says."""
    elsewhere, asked = free_port(), asyncio.Event()
    decoy = DocumentExtension()

    def redirect(_connection: ServerConnection, _request: Request) -> Response:
        asked.set()
        headers = Headers({"Location": f"ws://127.0.0.1:{elsewhere}/", "Content-Length": "0"})
        return Response(http.HTTPStatus.FOUND.value, "Found", headers, b"")

    port = free_port()
    async with (
        _listening(decoy, elsewhere),
        listen(decoy.serve, "127.0.0.1", port, process_request=redirect),
    ):
        server = serve("--bridge-dial", f"ws://127.0.0.1:{port}")
        async with asyncio.timeout(10):
            await asked.wait()
        await poll_until(lambda: "does not answer" in server.stderr)
        assert decoy.connections == 0
