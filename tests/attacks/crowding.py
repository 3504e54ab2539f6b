"""A thousand clients at once, each a process of its own that connects once, asks once and never tries again.

Run as `python crowding.py HOST:PORT|PATH COUNT PATIENCE_S`, with nothing of outlive's and nothing but the
standard library: prints a JSON object, how many got which answer (a status, or what happened instead) and the
seconds of the slowest. All connect when the last one is ready.
"""

import json
import os
import resource
import signal
import socket
import sys
import time
from collections import Counter

_REQUEST = b"GET /v1/processes?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def _ask(address: str, patience_s: float) -> str:
    """Return the status of the answer, or in a word or two why there is none."""
    done = "connect"
    try:
        if address.startswith("/"):
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(patience_s)
            link.connect(address)
        else:
            host, _, port = address.rpartition(":")
            link = socket.create_connection((host, int(port)), timeout=patience_s)
        done = "send"
        link.sendall(_REQUEST)
        done = "receive"
        answer = link.recv(1 << 16)
    except OSError as error:
        return f"{done}: {error.strerror or type(error).__name__}"
    return answer.split()[1].decode() if answer else f"{done}: closed without a word"


def _client(address: str, patience_s: float, *, start: int, say: int) -> None:
    os.read(start, 1)  # the end of the pipe: everybody is there
    begun = time.monotonic()
    answer = _ask(address, patience_s)
    os.write(say, json.dumps([answer, time.monotonic() - begun]).encode() + b"\n")


def main() -> None:
    """Fork the clients, let them go, and count."""
    address, count, patience_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    (waiting, go), (heard, say) = os.pipe(), os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            os.close(go)
            signal.alarm(int(patience_s) + 5)  # nobody outlives the test
            _client(address, patience_s, start=waiting, say=say)
            os._exit(0)
    os.close(say)
    os.close(go)
    with os.fdopen(heard) as lines:
        found = [json.loads(line) for line in lines]
    answers = Counter(answer for answer, _ in found)
    print(json.dumps({"answers": answers, "slowest_s": max((took for _, took in found), default=0.0)}))


if __name__ == "__main__":
    main()
