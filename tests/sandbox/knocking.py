"""Run inside of a sandbox: connects to every socket of a keeper and says everything there is.

Standard library only.

Its argument is a JSON object: `state`, the state folder; `paths`, the sockets that are known outside; `said`,
packets as hexadecimal digits. It knocks three times: as it is, then with its pid written into the
supervisor's lock files, then with files of its own in their place. Prints as JSON, for each time and each
path, what came back: a list of [hexadecimal digits, descriptors] or the name of the errno.
"""

import errno
import json
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import forging  # type: ignore[import-not-found]  # beside this file, where an isolated Python does not look

_PATIENCE_S = 20.0
_SILENCE_S = 0.02  # where a command is going to have its socket, and where nothing is yet that could answer


def _listed(state: str) -> set[str]:
    """Return what /proc/net/unix says; it is empty in a network namespace of our own."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        found = {line.rstrip("\n").partition(" /")[2] for line in file}
    return {f"/{path}" for path in found if f"/{path}".startswith(f"{state}/")}


def _ask(path: str, packet: bytes) -> list[object] | str:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen()
    null = os.open("/dev/null", os.O_RDWR)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.settimeout(_SILENCE_S if "/prepared/" in path else _PATIENCE_S)
            link.connect(path)
            try:
                socket.send_fds(link, [packet], [listener.fileno(), null, null, null])
                answer, fds, _, _ = socket.recv_fds(link, 65536, 16)
                if (
                    answer.startswith(b"prove ") and not fds
                ):  # a question is no service: what comes of an answer?
                    link.send(b"proved")
                    answer, fds, _, _ = socket.recv_fds(link, 65536, 16)
            except (BrokenPipeError, ConnectionResetError):
                return ["", 0]
            return [answer.hex(), len(fds)]
    except OSError as error:
        return "timeout" if error.errno is None else errno.errorcode[error.errno]
    finally:
        listener.close()
        os.close(null)


def main() -> None:
    """Knock everywhere."""
    told = json.loads(sys.argv[1])
    paths = sorted(_listed(told["state"]) | set(told["paths"]))
    said = [bytes.fromhex(packet) for packet in told["said"]]
    found = {"as it is": {path: [_ask(path, packet) for packet in said] for path in paths}}
    for way, replaces in (("written", False), ("replaced", True)):
        forging.forge(told["state"], replaces=replaces)
        found[way] = {path: [_ask(path, packet) for packet in said] for path in paths}
    forging.restore(told["state"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
