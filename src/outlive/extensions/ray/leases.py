"""What a server and whatever leases places to several servers say to each other: orders, answers and reports,
over a wire as lines of JSON. Pure.

A lease is a place on a node under a process's id.
"""

from collections.abc import Mapping

import msgspec

from outlive.core.documents import checked_json
from outlive.core.needs import Amounts
from outlive.core.values import dataclass, field
from outlive.placement.contract import FoundNode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOrder:
    """Lease a place on `node` to a process, or ("") give back what it has. `number` is that of the answer.

    An order may be repeated: nothing is leased twice, and what is not leased is given back with success.
    """

    number: int
    process_id: str
    node: str = ""
    amounts: Amounts = field(default_factory=Amounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAnswer:
    """What came of an order: whether it was carried out, else why not."""

    number: int
    is_done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasingNode:
    """A node that is there: all that it has, and what no server and no other program has taken of it."""

    name: str
    capacity: Amounts
    free: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLease:
    """A lease that some server has, on a node that is there; "": where it was is not there (any more).

    `is_ours`: this server asked.
    """

    process_id: str
    node: str
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReport:
    """Everything that is leased, and on what, at one moment."""

    nodes: tuple[LeasingNode, ...] = ()
    leases: tuple[SeenLease, ...] = ()


class DriverMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a driver says: one of these."""

    answer: LeaseAnswer | None = None
    report: LeaseReport | None = None
    found: FoundNode | None = None


encode = msgspec.json.encode
_orders = msgspec.json.Decoder(LeaseOrder)
_messages = msgspec.json.Decoder(DriverMessage)


def line(message: LeaseOrder | DriverMessage) -> bytes:
    """Return a message as it is sent."""
    return encode(message) + b"\n"


def decode_order(raw: bytes) -> LeaseOrder:
    """Return what a server has sent; raises ValueError for anything else."""
    return _orders.decode(checked_json(raw))


def decode_message(raw: bytes) -> DriverMessage:
    """Return what a driver has sent; raises ValueError for anything else."""
    return _messages.decode(checked_json(raw))
