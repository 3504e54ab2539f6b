"""What this process passes on to the commands it starts: its umask, its niceness, its span, and the token in
its environment.

Facts about this process only; they are sent by the client and the command line, and applied by the shim.
"""

import os
from collections.abc import Mapping

from outlive.core.identity import TRACE_VARIABLE
from outlive.kernel.processes import status_words

_USUAL_UMASK = 0o022


def own_umask() -> int:
    """Return this process's umask, and leave it as it is.

    Read from /proc, because umask(2) can only change it: a file that another thread creates meanwhile would
    have the wrong mode.
    """
    mask = status_words("self", b"Umask")  # since Linux 4.7
    return int(mask[0], 8) if mask else _USUAL_UMASK


def own_nice() -> int:
    """Return this process's niceness, -20 to 19."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def own_traceparent(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the span in which this process runs (TRACEPARENT), None when it is unset or empty.

    The server checks it.
    """
    return environ.get(TRACE_VARIABLE) or None


TOKEN_VARIABLE = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name


def own_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token in OUTLIVE_TOKEN, None when it is unset or empty."""
    return environ.get(TOKEN_VARIABLE, "").strip() or None


def token_headers(token: str | None) -> dict[str, str]:
    """Return the headers that show a token (RFC 6750, section 2.1)."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}
