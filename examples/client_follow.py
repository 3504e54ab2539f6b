"""Run a command, show its output as it comes, and end with its exit code. Ctrl-C leaves it running.

    python examples/client_follow.py 'for i in 1 2 3; do echo line $i; sleep 1; done'
    python examples/client_follow.py --attach 01m7ybywps7gsyjzmq1eandhcn     # come back to it later

Starts the server if none runs.
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import argparse
import sys

from outlive.client import Client, Gap, OutliveError


def run(client: Client, arguments: argparse.Namespace) -> int:
    """Start the command, or find it; show its output; return its exit code as a shell would."""
    process = client.get(arguments.attach) if arguments.attach else client.start(arguments.command)
    print(f"## {process.process_id} (pid {process.pid})", file=sys.stderr)
    try:
        for item in process.follow():
            if isinstance(item, Gap):
                print(f"## {item.end - item.start} bytes were released", file=sys.stderr)
                continue
            out = sys.stdout.buffer if item.stream == "stdout" else sys.stderr.buffer
            out.write(item.data)
            out.flush()
    except KeyboardInterrupt:
        print(f"\n## it runs on: --attach {process.process_id}", file=sys.stderr)
        return 130
    returncode = process.wait().returncode
    if returncode is None:
        return 1
    return returncode if returncode >= 0 else 128 - returncode


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="echo hello", help="a shell line")
    parser.add_argument("--attach", metavar="PROCESS_ID", help="follow this process from its beginning")
    with Client(say=lambda line: print(f"## {line}", file=sys.stderr)) as client:
        try:
            return run(client, parser.parse_args())
        except OutliveError as error:
            print(f"{error.message} {error.hint}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    raise SystemExit(main())
