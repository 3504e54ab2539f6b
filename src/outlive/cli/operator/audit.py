"""`outlive audit verify`, `show` and `begin`, and what the command line enters itself: the audit log's files, no server."""

import contextlib
import json
import os
from datetime import UTC, datetime
from typing import Any

from outlive.cli.moments import parse_since
from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import JSON, STATE_DIR, option, takes
from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.layout import Layout
from outlive.discovery.server_lock import ServerLock
from outlive.discovery.state_folder import layout_of
from outlive.policy.tokens import Token
from outlive.store.audit_chain import FIRST
from outlive.store.audit_trail import AuditTrail
from outlive.store.writer import AUDIT_LOG, peek_counter, set_counter

_SHOWN = ("principal", "address", "door", "decision", "reason", "process_id", "exit", "command")
_NO_BOUND = 1 << 60
_TOLD_BY_ITSELF = {"n", "at", "what", "prev", "mac", "connection", "request"}


@takes(
    option("--head", metavar="NUMBER:DIGEST", about="Look for an entry noted earlier, elsewhere, too."),
    STATE_DIR,
    JSON,
)
def verify(*, head: str | None, state_dir: str | None, as_json: bool) -> int:
    """Check the chain; return 0 when nothing speaks of a change, else 1.

    Args:
        head: "NUMBER:DIGEST" of an entry, as an earlier check has shown it.
        state_dir: Where the log lies.
        as_json: Answer with one line of JSON.

    Raises:
        InvalidRequest: `head` is not of that form.
    """
    layout = layout_of(state_dir)
    registered = peek_counter(layout.registry, AUDIT_LOG)
    report = trail_of(layout).verify(known=None if head is None else _known(head), registered=registered)
    if as_json:
        show_json(
            {
                "whole": report.is_whole,
                "entries": report.entries,
                "first": report.first,
                "last": report.last,
                "head": report.head,
                "files": report.files,
                "breaks": report.breaks,
                "notes": report.notes,
            }
        )
        return 0 if report.is_whole else 1
    for sentence in report.notes:
        say(f"outlive: {sentence}")
    for sentence in report.breaks:
        show(sentence)
    if not report.is_whole:
        show("The audit log was changed.")
        return 1
    if report.entries:
        show(
            f"{report.entries} entries fit together: {report.first} to {report.last}, in {report.files} files."
        )
        show(f"head {report.last}:{report.head}")
    return 0


@takes(
    option("--since", metavar="TIME", about="From this moment on: 10m, 14:30, a date."),
    option("--principal", metavar="NAME", about="What one has done."),
    option("--process", metavar="ID", about="What happened to one process."),
    STATE_DIR,
    JSON._replace(about="A line of JSON for each entry, as it lies there."),
)
def show_entries(
    *, since: str | None, principal: str | None, process: str | None, state_dir: str | None, as_json: bool
) -> int:
    """Print entries, oldest first: a line each, or the JSON objects as they lie in the log.

    Raises:
        InvalidRequest: `since` is no moment.
    """
    first = None if since is None else _moment(since)
    for entry in trail_of(layout_of(state_dir)).entries():
        if first is not None and str(entry.get("at", "")) < first:
            continue
        if principal is not None and entry.get("principal") != principal:
            continue
        if process is not None and not str(entry.get("process_id", "")).endswith(process.lower()):
            continue
        show(json.dumps(entry, ensure_ascii=False) if as_json else _line(entry))
    return 0


@takes(STATE_DIR, JSON)
def begin(*, state_dir: str | None, as_json: bool) -> int:
    """Set a broken log aside with its key, under a name with the time, and begin a new one whose first entry says so.

    Killed in between it leaves a log that is gone: a broken one, with which this begins again. Returns 1 where nothing is broken.

    Raises:
        ConfigInvalid: `server_running`: a server writes there.
    """
    now = datetime.now(UTC)
    layout = layout_of(state_dir)
    with ServerLock(layout):
        report = trail_of(layout).verify(registered=peek_counter(layout.registry, AUDIT_LOG))
        if report.is_whole:
            say("outlive: the audit log is whole: there is nothing to set aside.")
            return 1
        aside = f"{layout.audit}.broken-{now:%Y%m%dT%H%M%S.%fZ}"
        with contextlib.suppress(FileNotFoundError):  # the whole log is gone
            os.rename(layout.audit, aside)
        os.makedirs(aside, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(layout.audit_key, f"{aside}/audit.key")
        entry = {
            "at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
            "what": "audit",
            "reason": "begun_anew",
            "principal": f"uid:{os.getuid()}",
            "door": "cli",
            "set_aside": os.path.basename(aside),
            "head": f"{report.last}:{report.head}",
            "breaks": report.breaks,
        }
        trail = trail_of(layout, makes_key=True)
        trail.append([entry])
        set_counter(layout.registry, AUDIT_LOG, trail.log_number())
        head = f"1:{trail.verify().head}"
    if as_json:
        show_json({"set_aside": aside, "head": head})
    else:
        show(f"The broken log lies in {aside}; a new one has begun.")
        show(f"head {head}")
    return 0


def enter_token(layout: Layout, what: str, token: Token) -> None:
    """Enter that a token was made or taken back; where the disk refuses that, it is said."""
    entry = {
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "what": what,
        "principal": f"uid:{os.getuid()}",
        "door": "cli",
        "token": token.name,
        "scope": token.scope.name.lower(),
    }
    try:
        trail_of(layout).append([entry])
    except OSError as error:
        say(f"outlive: the audit log cannot be written: {error.strerror}")


def trail_of(layout: Layout, *, makes_key: bool = False) -> AuditTrail:
    """Return the audit log of a state folder, to check it or for an entry of the command line's own."""
    # How long files grow, how many are kept and when the log gets a key is the server's business.
    return AuditTrail(
        layout.audit,
        key_file=layout.audit_key,
        makes_key=makes_key,
        max_bytes=_NO_BOUND,
        max_files=_NO_BOUND,
    )


def _line(entry: dict[str, Any]) -> str:
    words = [str(entry.get("at", "-" * 27)), str(entry["n"]), str(entry.get("what", "?"))]
    more = sorted(set(entry) - set(_SHOWN) - _TOLD_BY_ITSELF)
    for name in (*_SHOWN[:-1], *more, _SHOWN[-1]):
        if name in entry:
            value = entry[name]
            words.append(f"{name}={json.dumps(value, ensure_ascii=False) if name == 'command' else value}")
    return " ".join(words)


def _moment(text: str) -> str:
    moment = parse_since(text, datetime.now().astimezone())
    if isinstance(moment, Cursor):
        raise InvalidRequest("invalid_params", f"--since {text[:60]!r} is no time.")
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _known(text: str) -> tuple[int, str]:
    number, _, wanted = text.partition(":")
    if not number.isdecimal() or len(wanted) != len(FIRST):
        raise InvalidRequest(
            "invalid_params", "--head takes NUMBER:DIGEST as `outlive audit verify` tells it."
        )
    return int(number), wanted.lower()
