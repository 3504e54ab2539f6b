"""`outlive audit verify`, `show` and `begin`, and what the command line enters itself: the audit log's files,
no server.

Secrets are shown where `check_raw` lets them pass, and `record_raw` enters that. The files are the user's
own, so this hides them from no program that reads files. It keeps a script, and a model that was given a
shell, from getting secrets by a flag: a person sits at a terminal, and everything else shows a token made for
that.
"""

import contextlib
import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from outlive.cli.far import a_client, far_url
from outlive.cli.moments import parse_since
from outlive.cli.output import Answer, say, show, show_json
from outlive.cli.parameters import JSON, STATE_DIR, UsageError, option, takes
from outlive.cli.processes import find_process
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, ProcessNotFound
from outlive.core.identity import (
    PROCESS_VARIABLE,
    SHORT_LENGTH,
    end_of_id,
    is_name,
    is_process_id,
    number_of,
    short_name,
)
from outlive.core.layout import Layout
from outlive.discovery.server_lock import ServerLock
from outlive.discovery.state_folder import layout_of, path_of
from outlive.kernel.callers import Ancestry
from outlive.kernel.locks import holder_of
from outlive.kernel.state_files import read_journal, read_pid
from outlive.policy.access import Scope, Token, find_token
from outlive.store.audit.audit_chain import FIRST
from outlive.store.audit.audit_trail import AuditTrail
from outlive.store.token_file import TokenFile
from outlive.store.writer import AUDIT_LOG, peek_counter, set_counter

_SHOWN = ("principal", "address", "door", "decision", "reason", "process_id", "exit", "command")
_NO_BOUND = 1 << 60
_SHOWN_ELSEWHERE = {"n", "at", "what", "prev", "mac", "connection", "request"}


@takes(
    option("--head", metavar="NUMBER:DIGEST", about="Look for an entry noted earlier, elsewhere, too."),
    STATE_DIR,
    JSON,
)
def verify(*, head: str | None, state_dir: str | None) -> Answer:
    """Check the chain; it ends with 0 when nothing speaks of a change, else with 1.

    Args:
        head: "NUMBER:DIGEST" of an entry, as an earlier check has shown it.
        state_dir: Where the log lies.

    Raises:
        UsageError: `head` is not of that form.
    """
    layout = Layout(path_of(state_dir))
    # A log that was copied to another machine lies in a folder that says no format.
    if os.path.lexists(layout.identity):
        layout = layout_of(state_dir)
    registered = peek_counter(layout.registry, AUDIT_LOG)
    report = trail_of(layout).verify(known=None if head is None else _known(head), registered=registered)
    members = ("entries", "first", "last", "head", "files", "breaks", "notes")
    document = {"whole": report.is_whole} | {name: getattr(report, name) for name in members}
    lines = [*report.breaks]
    if not report.is_whole:
        lines.append("The audit log was changed.")
    elif report.entries:
        span = f"{report.first} to {report.last}, in {report.files} files"
        lines += [f"{report.entries} entries fit together: {span}.", f"head {report.last}:{report.head}"]
    notes = [f"outlive: {sentence}" for sentence in report.notes]
    return Answer(document, lines, notes, code=0 if report.is_whole else 1)


@takes(
    option("--since", metavar="TIME", about="From this moment on: 10m, 14:30, a date."),
    option("--principal", metavar="NAME", about="What one has done."),
    option("--process", metavar="ID", about="What happened to one process: any of its names."),
    STATE_DIR,
    JSON._replace(about="A line of JSON for each entry, as it lies there."),
)
def show_entries(
    *, since: str | None, principal: str | None, process: str | None, state_dir: str | None, as_json: bool
) -> int:
    """Print entries, oldest first: a line each, or the JSON objects as they lie in the log.

    Raises:
        UsageError: `since` is no moment.
    """
    first = None if since is None else _moment(since)
    end = None if process is None else _meant(process, state_dir)
    for entry in trail_of(layout_of(state_dir)).entries():
        if first is not None and str(entry.get("at", "")) < first:
            continue
        if principal is not None and entry.get("principal") != principal:
            continue
        if end is not None and not str(entry.get("process_id", "")).endswith(end):
            continue
        show_json(entry) if as_json else show(_line(entry))
    return 0


@takes(STATE_DIR, JSON)
def begin(*, state_dir: str | None) -> int | Answer:
    """Set a broken log aside with its key, under a name with the time, and begin a new one whose first entry
    says so.

    Killed in between it leaves a log that is gone: a broken one, with which this begins again. Returns 1
    where nothing is broken.

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
        entry = _entry(
            "audit",
            now,
            reason="begun_anew",
            set_aside=os.path.basename(aside),
            head=f"{report.last}:{report.head}",
            breaks=report.breaks,
        )
        trail = trail_of(layout, makes_key=True)
        trail.append([entry])
        set_counter(layout.registry, AUDIT_LOG, trail.log_number())
        head = f"1:{trail.verify().head}"
    lines = [f"The broken log lies in {aside}; a new one has begun.", f"head {head}"]
    return Answer({"set_aside": aside, "head": head}, lines)


def enter_token(layout: Layout, what: str, token: Token) -> None:
    """Enter that a token was made or taken back; where the disk refuses that, it is said."""
    entry = _entry(what, datetime.now(UTC), token=token.name, scope=token.scope.name.lower())
    try:
        trail_of(layout).append([entry])
    except OSError as error:
        say(f"outlive: the audit log cannot be written: {error.strerror}")


def _entry(what: str, now: datetime, **members: object) -> dict[str, object]:
    """Return an entry of what the user of this command line does."""
    return {
        "at": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        "what": what,
        "principal": f"uid:{os.getuid()}",
        "door": "cli",
        **members,
    }


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
    more = sorted(set(entry) - set(_SHOWN) - _SHOWN_ELSEWHERE)
    names = (*_SHOWN[:-1], *more, _SHOWN[-1])
    return " ".join([*words, *(f"{name}={_value(name, entry[name])}" for name in names if name in entry)])


def _value(name: str, value: object) -> str:
    """Return a value as a word; quoted where it is a command's line, or could pass for other members."""
    text = str(value)
    is_word = text.isprintable() and not {" ", '"'} & {*text} and text
    return text if is_word and name != "command" else json.dumps(value, ensure_ascii=False)


def _moment(text: str) -> str:
    moment = parse_since(text, datetime.now().astimezone())
    if isinstance(moment, Cursor):
        raise UsageError(f"--since {text[:60]!r} is no time.")
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _known(text: str) -> tuple[int, str]:
    number, _, wanted = text.partition(":")
    if not number.isdecimal() or len(wanted) != len(FIRST):
        raise UsageError("--head takes NUMBER:DIGEST as `outlive audit verify` shows it.")
    return int(number), wanted.lower()


_OUTSIDE = "Ask from a terminal outside of what outlive runs."
_TOKEN = "Set OUTLIVE_TOKEN to a token of that scope: `outlive token create --scope admin`."  # noqa: S105 -- a hint


def may_show_raw(layout: Layout) -> bool:
    """Return whether `check_raw` lets it pass."""
    try:
        check_raw(layout)
    except AccessDenied:
        return False
    return True


def check_raw(layout: Layout) -> None:
    """Let secrets of this state folder be shown: to a person at a terminal, or for a token of the scope
    admin.

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
    span = {"from": str(begin), "to": str(end)}
    entry = _entry("read_raw", datetime.now(UTC), decision="allowed", process_id=process_id, **span)
    entry["address"] = f"pid {os.getpid()}"
    try:
        trail_of(layout).append([entry])
    except (OSError, ValueError) as error:
        raise BackendUnavailable("audit_unavailable", "The audit log cannot be written.") from error


def _has_token(layout: Layout) -> bool:
    secret = os.environ.get("OUTLIVE_TOKEN", "")
    token = find_token(TokenFile(layout).read(), secret, now=datetime.now(UTC)) if secret else None
    return token is not None and token.scope >= Scope.ADMIN


def _is_inside(layout: Layout) -> bool:
    """Return whether we live in a process of a server: by what it was given at its start, or by its
    ancestors. One that encloses the keeper of this state folder, too, does not count.
    """
    found = (read_pid(layout.process(process_id)) for process_id in read_journal(layout.live))
    leaders = {record.pid for record in found if record is not None}  # each leads a POSIX session of its own

    def ours(sessions: Collection[int]) -> Collection[int]:
        return leaders.intersection(sessions)

    ancestry = Ancestry(ours, of=holder_of(layout.supervisor_lock) or 0)
    carried = os.environ.get(PROCESS_VARIABLE, "")
    if carried and short_name(carried) not in ancestry.commands:
        return True
    return ancestry.judge(os.getpid()).is_inside is True


def _meant(word: str, state_dir: str | None) -> str:
    """Return the id, or the end of one, that a word means.

    A server that runs is asked for names, short ids and pids.
    """
    is_end = end_of_id(word) is not None and len(word) >= SHORT_LENGTH and number_of(word) is None
    if is_process_id(word) or (is_end and not is_name(word)):
        return word.lower()
    # Entries outlive the processes that they are about, and are there without a server: then it is the end of
    # an id.
    with (
        contextlib.suppress(ProcessNotFound, BackendUnavailable),
        a_client(state_dir, no_start=True) as client,
    ):
        return find_process(client, word).process_id
    return word.lower()
