"""Orders, answers and reports of leases as lines of JSON: what a server and its driver of Ray say to each
other. Pure.
"""

import msgspec

from outlive.core.documents import checked_json
from outlive.extensions.ray.leases import LeaseAnswer, LeaseOrder, LeaseReport
from outlive.placement.contract import FoundNode


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
