"""The floor of starting from Python: asyncio and a shell in one process, no server, no wire.

`python -m bench.peers.asyncio_floor TOTAL AT_ONCE COMMAND` prints one JSON line. A process of its own,
because the time of a fork depends on the size of whoever forks.
"""

import asyncio
import json
import shutil
import sys
import time


async def main(total: int, at_once: int, *, command: str) -> None:
    """Run `command` `total` times, `at_once` at a time, reading all output; print elapsed_ns and failures."""
    shell = shutil.which("bash") or "/bin/sh"
    places = asyncio.Semaphore(at_once)
    failed = 0

    async def run() -> None:
        nonlocal failed
        async with places:
            process = await asyncio.create_subprocess_exec(
                shell,
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            await process.communicate()
            failed += process.returncode != 0

    began = time.monotonic_ns()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(total):
            tasks.create_task(run())
    print(json.dumps({"elapsed_ns": time.monotonic_ns() - began, "failed": failed}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), command=sys.argv[3]))
