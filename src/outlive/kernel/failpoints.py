"""Failpoints: at `hit("shim.spawned")` a test may kill the process.

OUTLIVE_FAILPOINT="name@token-file" in the environment arms one. The token file is removed when the process
dies, so its successor does not die at the same point again. Never armed in normal operation: then a call
costs one comparison.
"""

import os
import signal

# The name of the armed failpoint, and the token file.
armed, _, token = os.environ.get("OUTLIVE_FAILPOINT", "").partition("@")


def hit(name: str) -> None:
    """Die by SIGKILL if `name` is the one that is `armed` and its token file is still there."""
    if name != armed:
        return
    try:
        os.unlink(token)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
