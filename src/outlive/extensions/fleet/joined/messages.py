"""What a node that dials in and its gateway say to each other before a connection is used: JSON messages with
a `type`. Pure.

The gateway speaks first, with `welcome` or `refused`; the node answers `kept` once the credential is on its
disk. Then nothing is said but `probe` and `here`, and `renew` and `kept`, until `serve`: from there on the
connection is one of docs/jsonrpc.md, in which the node is the server. Which side a message is for is a type
of its own, so that neither takes the other's.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from outlive.core.documents import checked_json
from outlive.core.errors import ProtocolViolation
from outlive.operations.requests import Tags

NODE_PATH = "/node"  # where nodes dial in, on the JSON-RPC port
INSTANCE_HEADER = (
    "Outlive-Instance"  # in which a node's server names itself while it lives: random, and no secret
)
_Secret = Annotated[str, Meta(max_length=256)]
_Words = Annotated[dict[str, str], Meta(max_length=64)]
_M = TypeVar("_M")


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """The node is let in: what it is called, and the credential for its next connection; "": the one that it
    has.
    """

    node: Annotated[str, Meta(min_length=1, max_length=64)]
    credential: _Secret


class NotLetIn(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The node is not let in, for a reason that its operator should read; the connection ends."""

    error: str
    message: str


class Renewed(msgspec.Struct, frozen=True, kw_only=True, tag="renew"):
    """Another credential for the next connection; "": the one that it has."""

    credential: _Secret


class Probe(msgspec.Struct, frozen=True, kw_only=True, tag="probe"):
    """The node is to answer `here`."""


class ServeNow(msgspec.Struct, frozen=True, kw_only=True, tag="serve"):
    """The node is to serve over this connection from now on, as for an upgrade with this query."""

    query: _Words = {}


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag="kept"):
    """The credential is on the node's disk, or (not `done`) could not be kept; `labels` are those that its
    operator gives it.
    """

    labels: Tags = {}
    done: bool = True


class Here(msgspec.Struct, frozen=True, kw_only=True, tag="here"):
    """The node lives."""


ToNode = Welcome | NotLetIn | Renewed | Probe | ServeNow
ToGateway = Kept | Here
_TO_NODE: msgspec.json.Decoder[ToNode] = msgspec.json.Decoder(ToNode)
_TO_GATEWAY: msgspec.json.Decoder[ToGateway] = msgspec.json.Decoder(ToGateway)


def encode_joined(message: ToNode | ToGateway) -> str:
    """Return a message as text."""
    return msgspec.json.encode(message).decode()


def read_for_node(frame: str | bytes) -> ToNode:
    """Read what a gateway says.

    Raises:
        ProtocolViolation: It is none of these messages.
    """
    return _read(_TO_NODE, frame)


def read_for_gateway(frame: str | bytes) -> ToGateway:
    """Read what a node says.

    Raises:
        ProtocolViolation: It is none of these messages.
    """
    return _read(_TO_GATEWAY, frame)


def _read(decoder: "msgspec.json.Decoder[_M]", frame: str | bytes) -> _M:
    try:
        return decoder.decode(checked_json(frame))
    except ValueError as error:
        text = "What answers there is no outlive server that nodes join, or of another version."
        raise ProtocolViolation("invalid_request", text) from error
