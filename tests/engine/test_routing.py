"""`Routing`: each call to the backend that has the process; containers are made ready first.

Nodes keep nobody waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

import pytest

from outlive.backends.contract import Backend, StartOutcome
from outlive.backends.routing import Route, Routing
from outlive.core.controls import Stop
from outlive.core.errors import BackendUnavailable, InvalidRequest, OutliveError, StartFailed
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause
from outlive.core.location import HERE, Location
from outlive.core.spec import Spec
from outlive.protocols.keeper import encode_spec
from tests.engine.held_backend import HeldBackend

pytestmark = pytest.mark.anyio

_ID = ProcessId("01m7ybywps7gsyjzmq1eandhcn")
_STOP = Stop(cause=Cause.CANCEL, grace_s=0, note="")
_SPEC = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/", container="session-1"))


def _held(folder: Path) -> tuple[HeldBackend, Backend]:
    held = HeldBackend(folder)
    return held, cast("Backend", held)


def _routing(
    local: Backend,
    *,
    nodes: Mapping[str, Backend] = MappingProxyType({}),
    ready: Callable[[str], Awaitable[None]] | None = None,
    located: Callable[[ProcessId], Location] = lambda _process_id: HERE,
) -> Routing:
    routes = {"local": Route(kind="local", backend=local)}
    if ready is not None:
        routes["docker"] = Route(kind="container", backend=local, ready=ready)
    routes |= {name: Route(kind="node", backend=node) for name, node in nodes.items()}
    return Routing(routes, located=located)


async def _at_once(_container: str) -> None:
    """Be ready."""


def _settling() -> tuple[list[StartOutcome | OutliveError], Callable[[StartOutcome | OutliveError], None]]:
    outcomes: list[StartOutcome | OutliveError] = []
    return outcomes, outcomes.append


async def test_a_start_goes_where_it_was_asked_for(tmp_path: Path) -> None:
    (here, local), (there, node) = _held(tmp_path / "a"), _held(tmp_path / "b")
    routing = _routing(local, nodes={"far": node})
    _, settle = _settling()
    async with asyncio.TaskGroup() as group:
        start = group.create_task(routing.start(_ID, _SPEC, b"", settle=settle, backend="far"))
        await asyncio.sleep(0)
        assert (len(here.asked), len(there.asked)) == (0, 1)
        there.arrive(there.asked[0])
        assert (await start).pid == 1001


async def test_verbs_go_to_where_the_process_is(tmp_path: Path) -> None:
    (here, local), (there, node) = _held(tmp_path / "a"), _held(tmp_path / "b")
    places = {_ID: Location(kind="node", backend="far")}
    routing = _routing(local, nodes={"far": node}, ready=_at_once, located=places.__getitem__)
    here.running[_ID] = there.running[_ID] = 1
    for name in ("a", "b"):
        (tmp_path / name / "processes" / _ID).mkdir()
    await routing.control(_ID, _STOP)
    places[_ID] = Location(kind="container", backend="docker")  # the keeper's
    await routing.control(_ID, _STOP)
    assert (here.stopped, there.stopped) == ([_ID], [_ID])


async def test_a_container_is_ready_before_its_command_starts(tmp_path: Path) -> None:
    here, local = _held(tmp_path)
    made: list[str] = []
    is_made = asyncio.Event()

    async def ready(name: str) -> None:
        await is_made.wait()
        made.append(name)

    routing = _routing(local, ready=ready)
    outcomes, settle = _settling()
    async with asyncio.TaskGroup() as group:
        start = group.create_task(routing.start(_ID, _SPEC, b"", settle=settle, backend="docker"))
        await asyncio.sleep(0)
        assert not here.asked
        is_made.set()
        while not here.asked:  # noqa: ASYNC110 - a turn or two of the loop
            await asyncio.sleep(0)
        here.arrive(here.asked[0])
        await start
    assert made == ["session-1"]
    assert [type(one) for one in outcomes] == [StartOutcome]


async def test_a_container_that_cannot_be_made_is_the_outcome(tmp_path: Path) -> None:
    here, local = _held(tmp_path)

    async def ready(_name: str) -> None:
        raise StartFailed("start_failed", "No image.")

    routing = _routing(local, ready=ready)
    outcomes, settle = _settling()
    with pytest.raises(StartFailed):
        await routing.start(_ID, _SPEC, b"", settle=settle, backend="docker")
    assert [type(one) for one in outcomes] == [StartFailed]
    assert not here.asked


async def test_a_caller_that_leaves_meanwhile_is_told_of_nothing_that_runs(tmp_path: Path) -> None:
    """Nobody would settle it else, and the engine would wait for ever."""
    here, local = _held(tmp_path)

    async def ready(_name: str) -> None:
        await asyncio.Event().wait()

    routing = _routing(local, ready=ready)
    outcomes, settle = _settling()
    start = asyncio.ensure_future(routing.start(_ID, _SPEC, b"", settle=settle, backend="docker"))
    await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert [type(one) for one in outcomes] == [BackendUnavailable]
    assert not here.asked


async def test_an_unknown_name_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    _, local = _held(tmp_path)
    routing = _routing(local, nodes={"far": local})
    assert routing.names == ("local", "far")
    outcomes, settle = _settling()
    with pytest.raises(InvalidRequest) as caught:
        await routing.start(_ID, _SPEC, b"", settle=settle, backend="docker")
    assert "local, far" in caught.value.hint
    assert len(outcomes) == 1


async def test_a_process_at_a_place_that_is_not_known_any_more_is_no_business_of_another_place(
    tmp_path: Path,
) -> None:
    here, local = _held(tmp_path)
    here.running[_ID] = 1
    routing = _routing(local, located=lambda _process_id: Location(kind="node", backend="gone"))
    with pytest.raises(InvalidRequest):
        await routing.control(_ID, _STOP)
    assert here.stopped == []
