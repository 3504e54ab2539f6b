"""What a server and whatever leases places to several servers say to each other: orders, answers and reports.

Pure.

A lease is a place on a node under a process's id. Over a wire it is said in `lease_messages`.
"""

from collections.abc import Mapping

from outlive.core.needs import Amounts
from outlive.core.values import dataclass, field


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
