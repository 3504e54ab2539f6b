"""Whether the command line may show secrets, and that it is entered in the audit log: `check_raw`, `record_raw`.

The files are the user's own, so this keeps nobody out who can read them. It keeps a script, and a model that was given a
shell, from being shown secrets by a flag: a person sits at a terminal, and everything else shows a token made for that.
"""

import os
from collections.abc import Collection
from datetime import UTC, datetime

from outlive.cli.far import far_url
from outlive.cli.operator.audit import trail_of
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable
from outlive.core.layout import Layout
from outlive.keeper.common.callers import Ancestry
from outlive.keeper.common.files import read_pid
from outlive.keeper.common.journal import read_journal
from outlive.policy.access import Scope
from outlive.policy.tokens import find_token
from outlive.store.token_file import TokenFile

_OUTSIDE = "Ask from a terminal outside of what outlive runs."
_TOKEN = "Set OUTLIVE_TOKEN to a token of that scope: `outlive token create --scope admin`."  # noqa: S105 -- a hint


def may_show_raw(layout: Layout) -> bool:
    """Tell whether `check_raw` lets it pass."""
    try:
        check_raw(layout)
    except AccessDenied:
        return False
    return True


def check_raw(layout: Layout) -> None:
    """Let secrets of this state folder be shown: to a person at a terminal, or for a token of the scope admin.

    Another server (`outlive --host`) judges for itself.

    Raises:
        AccessDenied: `scope_missing`: there is neither, or outlive runs what asks.
    """
    if far_url() is not None:
        return
    if _is_inside(layout):
        raise AccessDenied("scope_missing", "What outlive runs sees no secrets.", hint=_OUTSIDE)
    if os.isatty(0) or os.isatty(1) or _has_token(layout):
        return
    text = "Secrets are shown to a person at a terminal, or for a token of the scope admin; here is neither."
    raise AccessDenied("scope_missing", text, hint=_TOKEN)


def record_raw(layout: Layout, process_id: str, begin: Cursor, end: Cursor) -> None:
    """Enter in the audit log that output is shown with its secrets, before it is.

    Raises:
        BackendUnavailable: `audit_unavailable`: the log cannot be written.
    """
    entry = {
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "what": "read_raw",
        "principal": f"uid:{os.getuid()}",
        "address": f"pid {os.getpid()}",
        "door": "cli",
        "decision": "allowed",
        "process_id": process_id,
        "from": str(begin),
        "to": str(end),
    }
    try:
        trail_of(layout).append([entry])
    except (OSError, ValueError) as error:
        raise BackendUnavailable("audit_unavailable", "The audit log cannot be written.") from error


def _has_token(layout: Layout) -> bool:
    secret = os.environ.get("OUTLIVE_TOKEN", "")
    token = find_token(TokenFile(layout).read(), secret, now=datetime.now(UTC)) if secret else None
    return token is not None and token.scope >= Scope.ADMIN


def _is_inside(layout: Layout) -> bool:
    """Tell whether we live in a process of this state folder: by what it was told at its start, or by its ancestors."""
    if os.environ.get("OUTLIVE_PROCESS_ID") and os.environ.get("OUTLIVE_STATE_DIR") == layout.root:
        return True
    found = (read_pid(layout.process(process_id)) for process_id in read_journal(layout.live))
    leaders = {record.pid for record in found if record is not None}  # each leads a POSIX session of its own

    def ours(sessions: Collection[int]) -> Collection[int]:
        return leaders.intersection(sessions)

    return Ancestry(ours).judge(os.getpid()).is_inside is True
