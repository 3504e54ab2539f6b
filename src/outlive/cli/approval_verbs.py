"""approvals, approve, deny: what waits for a person, and that person's answer. They speak over the Unix socket."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from outlive.cli.naming import short_name
from outlive.cli.output import say, show, show_json
from outlive.cli.process_verbs import act_on
from outlive.cli.tables import age, plain
from outlive.client import Client, InvalidRequest, ProcessNotFound
from outlive.client.results import PendingApproval, ProcessInfo

__all__ = ["answer", "list_approvals"]

_MAX_SHOWN = 4000  # characters of a command; --json shows all


def list_approvals(client: Client, *, raw: bool, as_json: bool) -> int:
    """Print what waits for an approval, oldest first; `raw` hides no secrets."""
    waiting = client.approvals(raw=raw)
    if as_json:
        show_json({"approvals": [_document(one) for one in waiting]})
    elif not waiting:
        say("Nothing waits for an approval.")
    else:
        now = datetime.now(UTC)
        show("\n\n".join(_described(one, now) for one in waiting))
    return 0


def answer(
    client: Client,
    names: Sequence[str],
    verb: Callable[[str], ProcessInfo],
    *,
    said: str,
    as_json: bool,
) -> int:
    """Approve or deny each of `names`: ids, or ends of ids, of what waits."""

    def find(name: str) -> Callable[[], str]:
        return lambda: _meant(name, client.approvals())

    return act_on([(name, find(name)) for name in names], verb, str, said=said, as_json=as_json)


def _meant(name: str, waiting: Sequence[PendingApproval]) -> str:
    ids = [one.process_id for one in waiting if name and one.process_id.endswith(name.lower())]
    if not ids:
        text = f"Nothing called {name[:60]!r} waits for an approval."
        raise ProcessNotFound("process_not_found", text, hint="`outlive approvals` lists what waits.")
    if len(ids) > 1:
        text = f"{len(ids)} waiting processes are called so."
        raise InvalidRequest("process_ambiguous", text, hint=f"Type more of one: {', '.join(ids[:5])}.")
    return ids[0]


def _described(one: PendingApproval, now: datetime) -> str:
    """Return what a person has to know, a line each; no character of a command can draw over another one."""
    rest_s = max(0.0, (one.expires_at - now).total_seconds()) if one.expires_at is not None else 0.0
    facts = [
        ("id", f"{one.process_id} (outlive approve {short_name(one.process_id)})"),
        ("words", " ".join(map(repr, one.argv))),
        ("script", None if one.script is None else repr(one.script)),
        ("folder", one.cwd),
        ("sets", " ".join(one.variables) or None),
        ("why", one.reason),
        ("who", one.principal),
        ("since", f"{age(one.since, now)}, refused in {rest_s:.0f} s"),
        ("group", one.group),
    ]
    return "\n".join(
        f"{name:<9}{plain(str(value), _MAX_SHOWN)}" for name, value in facts if value is not None
    )


def _document(one: PendingApproval) -> dict[str, object]:
    document = asdict(one)
    document["since"] = one.since.isoformat()
    document["expires_at"] = None if one.expires_at is None else one.expires_at.isoformat()
    return document
