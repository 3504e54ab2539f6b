"""Whether anything on this machine listens on a port: what `wait_for` asks. Reads /proc in a thread, never connects."""

import asyncio
import contextlib

_LISTEN = "0A"  # the state's number in /proc/net/tcp (include/net/tcp_states.h)


async def is_listening(port: int) -> bool:
    """Tell whether anything on this machine listens on a TCP port; never connects to it."""
    return await asyncio.to_thread(_is_listening, port)


def _is_listening(port: int) -> bool:
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            for row in file:
                words = row.split(maxsplit=4)
                if len(words) > 3 and words[3] == _LISTEN and words[1].endswith(wanted):
                    return True
    return False
