"""Run by an ordinary user: tells what the machine offers him, or starts something within bounds as a shim
does.

`starting.py offers`, or `starting.py run '[steps, argv]'`. Beside it lies our source, and OUTLIVE_KEEPER_SHIM
names the program; standard library only.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))

from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.keeper.sandbox import capabilities as offers
from outlive.protocols.frames import SPEC_VERSION, encode_exec


def _main() -> None:
    if sys.argv[1] == "offers":
        offers.main("/nonexistent", os.open(os.environ[SHIM_VARIABLE], os.O_RDONLY))
        return
    steps, argv = json.loads(sys.argv[2])
    block = encode_exec(argv[0], os.getcwd(), tuple(argv), {"PATH": "/usr/bin:/bin"}, steps=tuple(steps))
    spec = os.memfd_create("spec")
    os.write(spec, b"%s 0\n%s" % (SPEC_VERSION, block))
    # A pipe of his own: another user's could not be opened by name.
    ran = subprocess.run([os.environ[SHIM_VARIABLE], "try"], stdin=spec, stdout=subprocess.PIPE, check=False)
    sys.stdout.buffer.write(ran.stdout)
    sys.exit(ran.returncode)


if __name__ == "__main__":
    _main()
