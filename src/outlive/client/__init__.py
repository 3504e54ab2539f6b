"""The Python client: start commands that outlive this program, follow them byte by byte, control them, find
them again.

    from outlive.client import Client

    with Client() as client:
        process = client.start("make -j8", tags={"job": "build"})
        for item in process.follow():
            ...

`Client` blocks, `AsyncClient` is the same for asyncio. docs/client.md describes both; errors are those of
`outlive.core.errors`, with a stable `code` and a `hint`.
"""

from outlive.client.client import AsyncClient, Client
from outlive.client.follow import AsyncEvents, AsyncFollow, Events, Follow
from outlive.client.options import StartOptions
from outlive.client.process import AsyncProcess, Process
from outlive.client.results import (
    Completion,
    Copied,
    DiskReport,
    FinishedRun,
    FoundLine,
    FoundLines,
    Gap,
    LeftOut,
    Output,
    Page,
    PendingApproval,
    ProcessEvent,
    ProcessInfo,
    ProcessStats,
    ServiceInfo,
    StackInfo,
)
from outlive.client.services import AsyncOutputs, AsyncProjectServices, Outputs, ProjectServices
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    CommandRefused,
    ConfigInvalid,
    InvalidRequest,
    InvalidState,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
    ProtocolViolation,
    StartFailed,
)

__all__ = [
    "BEGINNING",
    "AccessDenied",
    "AsyncClient",
    "AsyncEvents",
    "AsyncFollow",
    "AsyncOutputs",
    "AsyncProcess",
    "AsyncProjectServices",
    "BackendUnavailable",
    "Client",
    "CommandRefused",
    "Completion",
    "ConfigInvalid",
    "Copied",
    "Cursor",
    "DiskReport",
    "Events",
    "FinishedRun",
    "Follow",
    "FoundLine",
    "FoundLines",
    "Gap",
    "InvalidRequest",
    "InvalidState",
    "LeftOut",
    "LimitExceeded",
    "OutliveError",
    "Output",
    "Outputs",
    "Page",
    "PendingApproval",
    "Process",
    "ProcessEvent",
    "ProcessInfo",
    "ProcessNotFound",
    "ProcessStats",
    "ProjectServices",
    "ProtocolViolation",
    "ServiceInfo",
    "StackInfo",
    "StartFailed",
    "StartOptions",
]
