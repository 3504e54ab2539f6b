"""`outlive df`: what takes the state folder's disk, by project and by state, and what the server will remove
by itself.

The server measures and decides (`engine.disk_usage`); here are only the tables, one of which `prune
--dry-run` shows, too.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from outlive.cli.output import Answer, Line
from outlive.cli.parameters import SERVER, ServerFlags, takes
from outlive.cli.processes import connected
from outlive.cli.tables import shown_size, shown_span, shown_table

_WITHOUT = "(none)"


@takes(
    *SERVER,
    more=(
        "RECLAIMABLE is what has ended, and `outlive prune` would free. The server removes what has ended "
        "by itself, too: by its age, by how much there is, by the size of its output."
    ),
)
def df(*, server: ServerFlags) -> Answer:
    """Print three tables, or one line of JSON."""
    with connected(server) as client:
        usage = client.server.disk()
    rows = [("PROJECT", "PROCESSES", "RUN", "SIZE", "RECLAIMABLE")]
    for one in usage["projects"]:
        folder = _WITHOUT if one["project"] is None else one["project"]
        rows.append((folder, *_columns(one)))
    rows.append(("total", *_columns(usage)))
    states = [("STATE", "PROCESSES", "SIZE")]
    for state, share in usage["states"].items():
        states.append((state.replace("_", " "), str(share["processes"]), shown_size(share["bytes"])))
    free, total = shown_size(usage["free_bytes"]), shown_size(usage["total_bytes"])
    rest = (
        f"Registry, audit log and the rest: {shown_size(usage['own_bytes'])}. Free on this disk: {free} "
        f"of {total}."
    )
    removed = retention_lines(usage["retention"], datetime.now(UTC))
    return Answer(usage, [*shown_table(rows), "", *shown_table(states), "", *removed, rest])


def _columns(share: Mapping[str, Any]) -> tuple[str, str, str, str]:
    count, running = str(share["processes"]), str(share["running"])
    return count, running, shown_size(share["bytes"]), shown_size(share["reclaimable_bytes"])


def retention_lines(rules: Sequence[Mapping[str, Any]], now: datetime) -> list[Line]:
    """Return a table of what the server removes by itself: each part of the rule, how much of it is used,
    what goes, until when.
    """
    rows = [("THE SERVER REMOVES", "LIMIT", "USED", "GOES NOW", "NEXT")]
    for one in rules:
        words, written = _RULES[one["rule"]]
        limit = "none" if one["limit"] is None else written(one["limit"])
        goes = f"{one['processes']} ({shown_size(one['bytes'])})" if one["processes"] else "-"
        rows.append((words, limit, written(one["used"]), goes, _next(one, now)))
    return shown_table(rows)


def _next(rule: Mapping[str, Any], now: datetime) -> str:
    """Return when the next one goes: known of the age alone, the others depend on what is started."""
    if not rule.get("next_at"):
        return "-" if rule["rule"] == "age" else "when it is full"
    left = (datetime.fromisoformat(rule["next_at"]) - now).total_seconds()
    return f"in {shown_span(max(0.0, left))}"


_RULES: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "age": ("by age (--retention)", shown_span),
    "count": ("by count (--retention-count)", str),
    "size": ("by output (--state-quota)", shown_size),
}
