"""Run inside a profile: tries every way out that its siblings know, each in a child of its own.

Prints one JSON object.

`main` with one argument, JSON or @FILE: what there is to attack (`victim.py` and the keeper). An outcome is
"escaped", "denied: ERRNO", "kept: how" or "missing: what". Standard library only, and nothing of outlive.
"""

import errno
import json
import os
import signal
import sys
from collections.abc import Callable

from tests.escapes.attacker import devices, files, ipc, keeper, kernel, processes, sockets
from tests.escapes.attacker.calling import Kept, Missing, Told

_DEADLINE_S = 10


def _attempt(action: Callable[[Told], None], told: Told) -> str:
    """Try one way out in a child; what becomes of it there is nothing to the next one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(_DEADLINE_S)
        os.write(writing, _outcome(action, told).encode())
        os._exit(0)
    os.close(writing)
    said = b""
    while chunk := os.read(reading, 4096):
        said += chunk
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return said.decode() or f"denied: ended with status {status}"


def _outcome(action: Callable[[Told], None], told: Told) -> str:
    try:
        action(told)
    except Missing as error:
        return f"missing: {error}"
    except Kept as error:
        return f"kept: {error}"
    except OSError as error:
        return f"denied: {errno.errorcode.get(error.errno or 0, str(error))}"
    except BaseException as error:  # noqa: BLE001 - a fault of the attack is to be seen, not to end all of them
        return f"fault: {error!r}"
    return "escaped"


def main() -> None:
    """Try everything."""
    text = sys.argv[1]
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            text = file.read()
    told = json.loads(text)
    found = {}
    # Without bounds the others do real harm.
    for module in (
        (keeper,) if told["only_keeper"] else (keeper, files, sockets, processes, ipc, kernel, devices)
    ):
        for name, action in module.attempts(told).items():
            found[name] = _attempt(action, told)
    sys.stdout.write("\n" + json.dumps(found) + "\n")
