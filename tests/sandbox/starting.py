"""Run by an ordinary user: tells what the machine offers him, or starts something within bounds as a shim does.

`starting.py offers`, or `starting.py run '[steps, argv]'`. Beside it lies our source; standard library only.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))

from outlive.keeper.common.kernel import become_subreaper
from outlive.keeper.sandbox import capabilities as offers
from outlive.keeper.sandbox import confine

_NULL = os.O_RDWR | os.O_CLOEXEC


def _main() -> int:
    if sys.argv[1] == "offers":
        offers.main("/nonexistent")
        return 0
    become_subreaper()
    steps, argv = json.loads(sys.argv[2])
    reading, writing = os.pipe()  # his own: another user's could not be opened by name
    ends = {"I": os.open("/dev/null", _NULL), "O": writing}
    words = [[word.encode() for word in part] for part in (steps, argv)]
    pid, _ = confine.spawn(words[0], words[1][0], words[1], {b"PATH": b"/usr/bin:/bin"}, ends)
    os.close(writing)
    while chunk := os.read(reading, 65536):
        os.write(1, chunk)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(_main())
