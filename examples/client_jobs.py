"""A queue of jobs that needs no database: tags say what a job is, and the server remembers it.

    python examples/client_jobs.py --queue nightly 'sleep 1; echo a' 'sleep 1; echo b' 'exit 3'
    python examples/client_jobs.py --queue nightly        # what became of them, also tomorrow

Two jobs run at a time. Kill this program in the middle and start it again with the same words: what runs is
found, what has ended is not run again, what is missing is started.
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import argparse

from outlive.client import Client, ProcessInfo

AT_A_TIME = 2


def jobs_of(client: Client, queue: str) -> dict[str, ProcessInfo]:
    """Return every job of the queue that was started so far, by its number."""
    return {info.tags["job"]: info for info in client.list(tags={"queue": queue}, limit=1000)}


def work_off(client: Client, queue: str, commands: list[str]) -> None:
    """Start what was not started yet, so many at a time, and wait for all."""
    for number, command in enumerate(commands):
        if str(number) in jobs_of(client, queue):
            continue
        running = client.list(tags={"queue": queue}, active=True)
        if len(running) >= AT_A_TIME:
            client.get(running[-1].process_id).wait()  # the oldest
        client.start(command, tags={"queue": queue, "job": str(number)})
    for info in client.list(tags={"queue": queue}, active=True):
        client.get(info.process_id).wait()


def show(client: Client, queue: str) -> None:
    """Say what became of each job."""
    for number, info in sorted(jobs_of(client, queue).items(), key=lambda job: int(job[0])):
        result = "running" if info.returncode is None else f"exit {info.returncode}"
        print(f"{number:>3}  {result:<8}  {info.command}")


def main() -> None:
    """Read the arguments, work, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help="shell lines")
    parser.add_argument("--queue", default="default", help="the queue's name")
    arguments = parser.parse_args()
    with Client() as client:
        work_off(client, arguments.queue, arguments.commands)
        show(client, arguments.queue)


if __name__ == "__main__":
    main()
