"""What is asked of a node: each operation is one request that a server understands."""

import typing
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace

import msgspec
import pytest

from outlive.core.controls import (
    CloseInput,
    CloseOutput,
    Operation,
    Pause,
    ReleaseOutput,
    ResizeWindow,
    Resume,
    SignalProcess,
    Stop,
    Unbind,
)
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.extensions.fleet.starts import NodeControls, NodeRequests
from outlive.frontends.jsonrpc.methods import methods

_ID = "01m81ds7h140vms3gn2qew5vw4"
_ASKED: list[tuple[Operation, dict[str, object]]] = [
    (Pause(), {"verb": "PAUSE"}),
    (Resume(), {"verb": "RESUME"}),
    (Stop(cause=Cause.CANCEL, grace_s=2.5, note=""), {"verb": "CANCEL", "grace": 2.5}),
    (
        SignalProcess(signal=10, whole_tree=False, whole_group=True),
        {"signal": 10, "whole_tree": False, "whole_group": True},
    ),
    (CloseInput(), {}),
    (CloseOutput(stream=0), {"type": "stdout"}),
    (CloseOutput(stream=1), {"type": "stderr"}),
    (ResizeWindow(rows=30, cols=100), {"rows": 30, "cols": 100}),
    (
        ReleaseOutput(stdout_bytes=5, stderr_bytes=7),
        {"cursor": "5.7", "unbound": False},
    ),
    (Unbind(output_limit=4096), {"unbound": True}),
]


@pytest.mark.parametrize(("operation", "members"), _ASKED)
def test_an_operation_is_a_request_that_a_server_reads_as_it_was_meant(
    operation: Operation, members: dict[str, object]
) -> None:
    read = msgspec.convert(
        {"process_id": _ID, **operation.params()}, methods()[operation.method].shape, strict=True
    )
    assert {name: getattr(read, name) for name in members} == members


def test_every_operation_has_its_request_compared() -> None:
    assert {type(operation) for operation, _ in _ASKED} == set(typing.get_args(Operation))


class _Asked:
    """A node that notes which requests it may get twice."""

    def __init__(self) -> None:
        self.repeatable: list[bool] = []

    async def over(self, ask: Callable[["_Asked"], Awaitable[None]]) -> None:
        await ask(self)

    async def request(self, _method: str, _params: Mapping[str, object], *, is_repeatable: bool) -> None:
        self.repeatable.append(is_repeatable)


async def test_a_signal_alone_is_not_sent_again_over_the_next_connection() -> None:
    for operation, _ in _ASKED:
        if not isinstance(operation, ReleaseOutput):  # of a process without a bound, it is not asked for
            node, nothing = _Asked(), typing.cast("NodeProcesses", SimpleNamespace(by_id={}))
            controls = NodeControls(typing.cast("NodeRequests", node), nothing)
            await controls.control(ProcessId(_ID), operation, acknowledged=None)
            assert node.repeatable == [not isinstance(operation, SignalProcess)]
