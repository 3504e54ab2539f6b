"""What a command inherits from the program that asks for it, as far as the kernel tells it: umask and niceness of this process.

The token that programs of ours show when they were given one: `own_token`.
"""

import os
from collections.abc import Mapping

_USUAL_UMASK = 0o022


def own_umask() -> int:
    """Return this process's umask, and leave it as it is.

    umask(2) can only change it: another thread's new file would have the wrong mode meanwhile.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):  # from Linux 4.7 on
                    return int(line[6:], 8)
    except OSError:
        pass
    return _USUAL_UMASK


def own_nice() -> int:
    """Return this process's niceness, -20 to 19."""
    return os.getpriority(os.PRIO_PROCESS, 0)


TOKEN_VARIABLE = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name


def own_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token of the environment, None where there is none."""
    return environ.get(TOKEN_VARIABLE, "").strip() or None


def token_headers(token: str | None) -> dict[str, str]:
    """Return the headers that show a token (RFC 6750, section 2.1)."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}
