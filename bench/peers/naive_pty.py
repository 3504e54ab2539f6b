"""The plain way to show a terminal over WebSocket: a pty in the server's own process, read and sent as it
comes.

What most web terminals do: `os.read` when the event loop says so, one send for each read, and input written
to the pty. Nothing is kept. The first message is the command. A yardstick: do not make it faster.
"""

import asyncio
import os
import pty
import sys

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

_READ_BYTES = 65536


async def _handle(connection: ServerConnection) -> None:
    command = await connection.recv()
    master, slave = pty.openpty()
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        async with asyncio.TaskGroup() as tasks:
            typing = tasks.create_task(_type(connection, master))
            await _show(connection, master)
            typing.cancel()
        await shell.wait()
    except* ConnectionClosed:
        shell.kill()
    finally:
        os.close(master)


async def _show(connection: ServerConnection, master: int) -> None:
    loop = asyncio.get_running_loop()
    while True:
        readable = loop.create_future()
        loop.add_reader(master, readable.set_result, None)
        try:
            await readable
        finally:
            loop.remove_reader(master)
        try:
            data = os.read(master, _READ_BYTES)
        except OSError:  # EIO: the last slave was closed
            return
        await connection.send(data)


async def _type(connection: ServerConnection, master: int) -> None:
    async for message in connection:
        os.write(master, message.encode() if isinstance(message, str) else message)


async def main(port: int) -> None:
    """Serve on a loopback port (0: any free one) until killed; print the port when listening."""
    async with serve(_handle, "127.0.0.1", port) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
