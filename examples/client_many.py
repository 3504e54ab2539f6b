"""Many commands at once with asyncio: each is followed while it runs, and the first failure cancels the
others.

python examples/client_many.py 100
python examples/client_many.py 100 --fail 17
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import argparse
import asyncio
import contextlib

from outlive.client import AsyncClient, AsyncProcess, InvalidState, Output

AT_A_TIME = 20


class Failed(Exception):
    """A command ended with something else than 0."""


async def run_one(client: AsyncClient, places: asyncio.Semaphore, *, number: int, command: str) -> bytes:
    """Run a command to its end and return its output; cancelled together with this task."""
    async with places:
        process = await client.start(command, tags={"number": str(number)})
        output = b""
        try:
            async for item in process.follow():
                if isinstance(item, Output):
                    output += item.data
        except asyncio.CancelledError:
            await end(process)  # leaving an iteration ends nothing: who wants that says so
            raise
        if (returncode := (await process.wait()).returncode) != 0:
            raise Failed(f"number {number} ended with {returncode}")
        return output


async def end(process: AsyncProcess) -> None:
    """Cancel a process, if it still runs."""
    with contextlib.suppress(InvalidState):  # it has ended
        await process.cancel(grace_s=1)


async def main() -> int:
    """Start them all and add up what they print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, nargs="?", default=50)
    parser.add_argument("--fail", type=int, metavar="NUMBER", help="let this one fail")
    arguments = parser.parse_args()
    places = asyncio.Semaphore(AT_A_TIME)
    commands = [f"sleep 0.1; echo $(({number} * 2))" for number in range(arguments.count)]
    if arguments.fail is not None:
        commands[arguments.fail] = "exit 3"
    tasks: list[asyncio.Task[bytes]] = []
    async with AsyncClient() as client:
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [
                    group.create_task(run_one(client, places, number=number, command=command))
                    for number, command in enumerate(commands)
                ]
        except* Failed as failures:
            print(failures.exceptions[0])
    if any(task.cancelled() or task.exception() for task in tasks):
        return 1
    print(f"{len(tasks)} commands, sum {sum(int(task.result()) for task in tasks)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
