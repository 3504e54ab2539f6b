"""`LeaseKey`: the key in Ray's table that stands beside each placement group, so that leases can be listed.

Pure.

Any program of the cluster can write into that table: what is no key of ours is passed over (`read_keys`).
"""

from collections.abc import Iterable

from outlive.core.values import dataclass


@dataclass(frozen=True, slots=True)
class LeaseKey:
    """One lease as it can be listed; `node_id` is Ray's."""

    owner: str
    process_id: str
    node_id: str

    def encode(self) -> bytes:
        """Return it as Ray keeps it."""
        return f"lease/{self.owner}/{self.process_id}/{self.node_id}".encode()

    @classmethod
    def decode(cls, raw: bytes) -> "LeaseKey":
        """Return what `encode` made; an owner may hold any mark.

        Raises:
            ValueError: It is none of those.
        """
        head, process_id, node_id = raw.decode().removeprefix("lease/").rsplit("/", 2)
        return cls(head, process_id, node_id)


def read_keys(raws: Iterable[bytes]) -> tuple[list[LeaseKey], list[bytes]]:
    """Return the keys, and what is none of them."""
    keys: list[LeaseKey] = []
    odd: list[bytes] = []
    for raw in raws:
        try:
            keys.append(LeaseKey.decode(raw))
        except ValueError:
            odd.append(raw)
    return keys, odd
