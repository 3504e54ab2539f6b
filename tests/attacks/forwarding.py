"""A port forwarded as `ssh -L` and `docker -p` do it: a program of its own that passes bytes on and adds
nothing.

Run as `python -m tests.attacks.forwarding PORT`: it says on which port it listens, and ends with its stdin.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def forwarded(port: int) -> Iterator[int]:
    """Yield the number of a free port behind which `port` is, while the block runs."""
    words = [sys.executable, "-m", "tests.attacks.forwarding", str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            yield int(program.stdout.readline())
        finally:
            program.stdin.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


async def _main(port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(_main(int(sys.argv[1])))
