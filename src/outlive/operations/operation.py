"""What an operation is (`Operation`), and how one is declared: `reads`, `runs`, `decides`. Pure."""

from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack

import msgspec

from outlive.policy.access import Scope

_Shape = type[msgspec.Struct] | None
Pace = Literal["brief", "long", "open"]


class Operation(msgspec.Struct, kw_only=True, frozen=True):
    """One operation.

    `request` is what every frontend takes that has it; the frontends' own shapes inherit from it. None: what
    is asked for is a place in the output, a page of a list or a time to wait, which each protocol says in its
    own way.

    With an `answer` every door takes and gives the same: `server.operations` carries it out, and JSON-RPC and
    REST have nothing of their own for it. `pace` says whether others wait for it: a brief one is answered in
    the order of the requests, a long one takes some time (a disk, another program), an open one as long as
    its caller likes, so that a server which stops ends it. `route` is its method and path over REST, where
    those that follow from its name will not do; `problems` are the statuses of errors there beside those that
    follow from path and request, `example` is a request to show, and `body` is what of the request the body
    has there if the path names the rest.
    """

    name: str
    scope: Scope
    help: str
    request: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    pace: Pace = "long"
    route: str = ""
    problems: tuple[int, ...] = ()
    example: Mapping[str, object] | None = None
    body: _Shape = None


class _More(TypedDict, total=False):
    pace: Pace
    route: str
    problems: tuple[int, ...]
    example: Mapping[str, object]
    body: type[msgspec.Struct]


def reads(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, **more: Unpack[_More]
) -> Operation:
    """Declare what every caller may ask."""
    return Operation(name=name, scope=Scope.READ, help=text, request=request, answer=answer, **more)


def runs(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, **more: Unpack[_More]
) -> Operation:
    """Declare what callers may do that may start commands."""
    return Operation(name=name, scope=Scope.RUN, help=text, request=request, answer=answer, **more)


def decides(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, **more: Unpack[_More]
) -> Operation:
    """Declare what only administrators may do."""
    return Operation(name=name, scope=Scope.ADMIN, help=text, request=request, answer=answer, **more)
