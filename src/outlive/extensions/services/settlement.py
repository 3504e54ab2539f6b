"""Waiting until services are as they were asked to be, and saying what they are: `settle`."""

import time
from collections.abc import Collection

from outlive.cli.output import say, show, show_json
from outlive.cli.processes import plain_fields
from outlive.cli.progress import progress
from outlive.client import Client, ServiceInfo, StackInfo
from outlive.extensions.services.service_words import service_sentence

_STILL_WAITING = 124  # as timeout(1) says that the time is up
_FAILED = 1
_NEWS_S = 30.0
# A service that was started again so often while it was waited for will hardly be ready soon.
_TRIES = 3


def settle(
    client: Client,
    stack: StackInfo,
    names: Collection[str],
    *,
    timeout_s: float,
    as_json: bool,
    stops: bool = False,
) -> int:
    """Wait until services are ready (or stopped), print a line for each, and return the exit code.

    0: all are; 1: some will not be; 124: the time is up.
    """
    until = time.monotonic() + timeout_s
    said: dict[str, str] = {}
    with progress("stopping" if stops else "starting", len(names)) as one_more:
        while True:
            services = {one.name: one for one in stack.services}
            for name in names:
                one = services.get(name)
                if one is None or not _is_settled(one, over=stops) or said.get(name) == one.state:
                    continue
                if name not in said:
                    one_more()
                said[name] = one.state
                if not as_json:
                    show(f"{name}  {service_sentence(one, services)}")
            left_s = until - time.monotonic()
            if until_settled(stack, names, over=stops) or left_s <= 0:
                break
            (stack,) = client.services.list(
                stack.folder, revision=stack.revision, wait_s=max(0.0, min(_NEWS_S, left_s))
            )
    if as_json:
        show_json(all_view(stack))
    late = [name for name in names if name in services and not _is_settled(services[name], over=stops)]
    for name in late if not as_json else ():
        say(f"{name}  {service_sentence(services[name], services)}")
    if late:
        say(f"outlive: the time is up: {len(late)} of {len(names)} {'run on' if stops else 'are not ready'}.")
        return _STILL_WAITING
    if stops:
        return 0
    return _FAILED if any(not _is_well(services[name]) for name in names if name in services) else 0


def until_settled(stack: StackInfo, names: Collection[str], *, over: bool) -> bool:
    """Whether nothing more is to be waited for: all are ready or will not be, or with `over` nothing runs any
    more.
    """
    return all(_is_settled(one, over=over) for one in stack.services if one.name in names)


def _is_settled(one: ServiceInfo, *, over: bool) -> bool:
    if over:
        return one.is_over
    return one.is_over or one.state == "ready" or (one.state == "backing_off" and one.restarts >= _TRIES)


def _is_well(one: ServiceInfo) -> bool:
    return one.state in {"ready", "done"}


def all_view(stack: StackInfo) -> dict[str, object]:
    """Return a project's services as JSON shows them."""
    services = [{**plain_fields(one), "after": [*one.after]} for one in stack.services]
    return {"folder": stack.folder, "services": services}
