"""Places where a test may kill this process: `hit("shim.spawned")` costs one comparison when none is armed.

Armed by OUTLIVE_FAILPOINT="name@token-file" in the keeper's environment; the token file is consumed, so that
the successor does not die at the same place again. Never armed in normal operation.
"""

import os
import signal

armed, _, _TOKEN = os.environ.get("OUTLIVE_FAILPOINT", "").partition("@")


def hit(name: str) -> None:
    """Die by SIGKILL when `name` is the one that is `armed` and its token file is still there."""
    if name != armed:
        return
    try:
        os.unlink(_TOKEN)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
