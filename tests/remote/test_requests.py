"""What is asked of a node: each operation is one request that a server understands."""

import typing

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
from outlive.core.lifecycle import Cause
from outlive.frontends.jsonrpc.methods import METHODS

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
        {"process_id": _ID, **operation.params()}, METHODS[operation.method].shape, strict=True
    )
    assert {name: getattr(read, name) for name in members} == members


def test_every_operation_has_its_request_compared() -> None:
    assert {type(operation) for operation, _ in _ASKED} == set(typing.get_args(Operation))
