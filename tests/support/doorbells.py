"""The keeper's doorbells as a test reads them: with names, where the server takes tuples."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlive.protocols.keeper import RECORD


@dataclass(frozen=True, slots=True)
class Doorbell:
    """The newest state of one process; `key` is the 16-byte form of its id (`core.identity`)."""

    key: bytes
    out: int
    err: int
    pid: int
    code: int
    phase: int
    cause: int
    flags: int
    descendants: int


def decode_doorbells(packet: bytes) -> Iterator[Doorbell]:
    """Yield the records of a packet that begins with "D"."""
    for fields in RECORD.iter_unpack(memoryview(packet)[1:]):
        yield Doorbell(*fields)
