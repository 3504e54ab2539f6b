"""What a service does, in some words; and what `outlive ps` says of all of them (`listed`)."""

from collections.abc import Mapping
from datetime import UTC, datetime

from outlive.cli.tables import short_signal
from outlive.client import Client, OutliveError, ServiceInfo


def listed(client: Client, project: str) -> tuple[dict[str, str], list[str]]:
    """Return how often services were started again, by the ids of their processes, and what those of this
    project do that have no process now, and should have one. Nothing where this caller may not see them.
    """
    try:
        stacks = client.services.list()
    except OutliveError:
        return {}, []
    services = [one for stack in stacks for one in stack.services]
    restarts = {
        one.process_id: f", restarts {one.restarts}" for one in services if one.process_id and one.restarts
    }
    said = []
    for stack in stacks:
        known = {one.name: one for one in stack.services}
        said += [
            f"service {one.name}: {service_sentence(one, known)}"
            for one in stack.services
            if stack.project == project and (one.state in {"backing_off", "failed"} or one.is_blocked)
        ]
    return restarts, said


def service_sentence(
    one: ServiceInfo, others: Mapping[str, ServiceInfo], *, now: datetime | None = None
) -> str:
    """Return what a service does, in some words."""
    match one.state:
        case "backing_off":
            left_s = 0.0 if one.until is None else (one.until - (now or datetime.now(UTC))).total_seconds()
            return (
                f"{_service_end(one)}; starts again in {max(0.0, left_s):.1f} s (restart {one.restarts + 1})"
            )
        case "failed":
            has_end = one.exit_code is not None or one.exit_signal is not None
            return f"failed ({_service_end(one)})" if has_end else f"failed: {_service_end(one)}"
        case "done":
            return "finished"
        case "waiting":
            late = [name for name in one.after if name in others and not _is_there(others[name])]
            return f"waits for {', '.join(late)}" + (", in vain" if one.is_blocked else "")
        case "running":
            return "runs, and is not ready yet"
        case "ready":
            return "is ready" + (f" (restarts: {one.restarts})" if one.restarts else "")
        case state:
            return state


def _is_there(one: ServiceInfo) -> bool:
    return one.state in {"ready", "done"}


def _service_end(one: ServiceInfo) -> str:
    if one.exit_code is not None:
        return f"exit {one.exit_code}"
    if one.exit_signal is not None:
        return short_signal(one.exit_signal)
    return (one.error or "it ended").rstrip(".")
