"""`outlive approvals`, `approve` and `deny`: what waits for a person, and that person's answer.

They speak over the Unix socket.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from outlive.cli.operator.audit import check_raw
from outlive.cli.output import agreed, blocks, plain, say, show, show_json, tell_hidden
from outlive.cli.parameters import SERVER, ServerFlags, option, places, switch, takes
from outlive.cli.processes import act_on, connected
from outlive.cli.tables import age
from outlive.client import InvalidRequest, ProcessNotFound
from outlive.client.results import PendingApproval, ProcessInfo
from outlive.core.values import asdict
from outlive.discovery.state_folder import layout_of

_MAX_SHOWN = 4000  # characters of one fact about a command
_SERVER_SHOWS = 64 * 1024  # bytes of a script
# 48 bits of a SHA-256 over an id that the server has drawn, too: no caller can make another command that
# begins so.
_DIGEST_LETTERS = 12
_HOW = "`outlive approvals` shows what waits, and behind `yes` the words that approve exactly that."


@takes(switch("--raw", about="Hide no secrets in the words, and no values of variables."), *SERVER)
def approvals(*, raw: bool, server: ServerFlags) -> int:
    """Print what waits for an approval, oldest first; `raw` hides no secrets and no values."""
    if raw:
        check_raw(layout_of(server.state_dir))
    with connected(server) as client:
        waiting = client.approvals(raw=raw)
    if server.as_json:
        show_json({"approvals": [_document(one) for one in waiting]})
    elif not waiting:
        say("Nothing waits for an approval.")
    else:
        now = datetime.now(UTC)
        show(*blocks(_described(one, now) for one in waiting))
        tell_hidden(sum(one.redacted for one in waiting), by="--raw")
    return 0


@takes(
    places(
        "names",
        "DIGEST|ID...",
        about=(
            "What `outlive approvals` shows behind yes; at a terminal also whole ids: each is shown and "
            "asked."
        ),
    ),
    switch(
        "--always",
        about=(
            "Approve exactly this in its project from now on: what `outlive approvals` shows behind always."
        ),
    ),
    *SERVER,
)
def approve(*, names: list[str], always: bool, server: ServerFlags) -> int:
    """Approve each of `names`: the beginning of a digest, or at a terminal, where it is shown and asked, a
    whole id.
    """
    with connected(server) as client:

        def find(name: str) -> Callable[[], PendingApproval]:
            return lambda: _looked_at(name, client.approvals())

        def verb(one: PendingApproval) -> ProcessInfo:
            return client.approve(one.process_id, one.digest, always=always)

        targets = [(name, find(name)) for name in names]
        return act_on(
            targets,
            verb,
            lambda one: one.process_id,
            label=lambda one: f"{one.process_id} is approved{' for always' if always else ''}",
            as_json=server.as_json,
        )


@takes(
    places("names", "ID...", about="Whole ids, or digests, of what waits for an approval."),
    option("--reason", metavar="TEXT", about="One sentence for the caller.", default=""),
    *SERVER,
)
def deny(*, names: list[str], reason: str, server: ServerFlags) -> int:
    """Deny each of `names`: whole ids, or beginnings of digests, of what waits."""
    with connected(server) as client:

        def find(name: str) -> Callable[[], str]:
            return lambda: _meant(name, client.approvals()).process_id

        targets = [(name, find(name)) for name in names]
        return act_on(
            targets,
            lambda one: client.deny(one, reason),
            str,
            label=lambda one: f"{one} is denied",
            as_json=server.as_json,
        )


def _looked_at(name: str, waiting: Sequence[PendingApproval]) -> PendingApproval:
    """Return what a person has looked at, by its digest or here and now.

    Raises:
        InvalidRequest: It was not looked at. What an id stands for may be another command than the one that
            was listed under its last letters, so an id alone approves nothing.
    """
    one = _meant(name, waiting)
    if _names_digest(name, one):
        return one
    if not (sys.stdin is not None and sys.stdin.isatty()):
        text = f"What {name[:60]!r} stands for would have to be shown first, and no person can be asked here."
        raise InvalidRequest("invalid_params", text, hint=_HOW)
    say(*_described(one, datetime.now(UTC)))
    tell_hidden(one.redacted, by="`outlive approvals --raw`")
    if not agreed("Approve exactly this?"):
        raise InvalidRequest("invalid_params", "It was not approved, and goes on waiting.", hint=_HOW)
    return one


def _names_digest(name: str, one: PendingApproval) -> bool:
    return len(name) >= _DIGEST_LETTERS and one.digest.startswith(name.lower())


def _meant(name: str, waiting: Sequence[PendingApproval]) -> PendingApproval:
    found = [one for one in waiting if one.process_id == name.lower() or _names_digest(name, one)]
    if not found:
        text = f"Nothing called {name[:60]!r} waits for an approval."
        raise ProcessNotFound("process_not_found", text, hint="`outlive approvals` lists what waits.")
    if len(found) > 1:
        ids = ", ".join(one.process_id for one in found[:5])
        text = f"{len(found)} waiting processes are called so."
        raise InvalidRequest("process_ambiguous", text, hint=f"Type more of one: {ids}.")
    return found[0]


def _described(one: PendingApproval, now: datetime) -> list[str]:
    """Return what a person has to know, a line each; no character of a command can draw over another one."""
    rest_s = max(0.0, (one.expires_at - now).total_seconds()) if one.expires_at is not None else 0.0
    facts = [
        ("id", one.process_id),
        ("words", " ".join(map(repr, one.argv))),
        ("script", _script(one)),
        ("folder", one.cwd),
        ("sets", " ".join(_variable(name, value) for name, value in one.env.items()) or None),
        ("profile", one.profile),
        ("where", None if one.location is None else " ".join(map(str, one.location.values()))),
        ("why", one.reason),
        ("who", one.principal),
        ("since", f"{age(one.since, now)}, refused in {rest_s:.0f} s"),
        ("group", one.group),
        ("always", _standing(one)),
        ("yes", f"outlive approve {one.digest[:_DIGEST_LETTERS]}"),
    ]
    return [f"{name:<9}{_whole(value)}" for name, value in facts if value is not None]


def _standing(one: PendingApproval) -> str:
    """Return what `--always` would approve from now on, or why it approves nothing."""
    if one.always is None:
        return f"no: {one.only_once}"
    words = "exactly these words"
    if one.always["commands"] != [list(one.argv)]:
        words = " and ".join(" ".join(map(repr, words)) for words in one.always["commands"])
    return (
        f"{words}, in {one.always['project']}, while the files that they name hold what they hold now "
        "(what else it reads by itself may change, and runs as well)"
    )


def _variable(name: str, value: str | None) -> str:
    return f"-{name}" if value is None else f"{name}={value!r}"


def _script(one: PendingApproval) -> str | None:
    if one.script is None:
        return None
    size = len(one.script.encode("utf-8", "replace"))
    is_cut = one.script_bytes > max(size, _SERVER_SHOWS)
    return (f"(CUT: the beginning of {one.script_bytes} bytes) " if is_cut else "") + repr(one.script)


def _whole(text: str) -> str:
    """Return a text without characters that a terminal would obey: whole, or saying that it is cut."""
    shown = plain(text, len(text) + 1)
    if len(shown) <= _MAX_SHOWN:
        return shown
    return f"{shown[:_MAX_SHOWN]} (CUT: {len(shown) - _MAX_SHOWN} more characters, which --json shows)"


def _document(one: PendingApproval) -> dict[str, object]:
    document = asdict(one)
    document["since"] = one.since.isoformat()
    document["expires_at"] = None if one.expires_at is None else one.expires_at.isoformat()
    return document
