"""From a decision about one number after another to a program that the kernel runs (classic BPF). Pure.

`syscalls` says what is decided; `calls.install_filter` puts the program into force. Source: seccomp(2), linux/filter.h.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

# Codes of linux/bpf_common.h: load the 32-bit word at k; jump; return k.
_LOAD, _JUMP, _RETURN = 0x20, 0x05, 0x06
_FARTHEST = 255  # instructions: what a conditional jump reaches, 8 bits
_INSTRUCTION = struct.Struct("<HBBI")


class Kind(IntEnum):
    """How a word is compared with a value, unsigned: the code of the jump."""

    EQUAL = 0x15
    AT_LEAST = 0x35
    ANY_BIT = 0x45


@dataclass(frozen=True, slots=True)
class Return:
    """The end of a decision: what the kernel is to do."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One question about the word at an offset of what the kernel shows, and what follows from each answer."""

    offset: int
    kind: Kind
    value: int
    yes: "Decision"
    no: "Decision"


Decision = Return | Branch


def by_ranges(offset: int, ranges: Sequence[tuple[int, Decision]]) -> Decision:
    """Return a balanced tree over ranges of a word, each given by its first value, in ascending order from 0.

    Balanced because the kernel walks it for every system call there is when it is put into force.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    half = len(ranges) // 2
    return Branch(
        offset=offset,
        kind=Kind.AT_LEAST,
        value=ranges[half][0],
        yes=by_ranges(offset, ranges[half:]),
        no=by_ranges(offset, ranges[:half]),
    )


def assemble(decision: Decision) -> bytes:
    """Return the program of a decision: 8 bytes an instruction."""
    return b"".join(_INSTRUCTION.pack(*one) for one in _instructions(decision, loaded=-1))


def _instructions(decision: Decision, *, loaded: int) -> list[tuple[int, int, int, int]]:
    """Return instructions; `loaded` is the offset of the word that is in the accumulator already."""
    if isinstance(decision, Return):
        return [(_RETURN, 0, 0, decision.value)]
    found = [] if loaded == decision.offset else [(_LOAD, 0, 0, decision.offset)]
    yes = _instructions(decision.yes, loaded=decision.offset)
    no = _instructions(decision.no, loaded=decision.offset)
    if len(yes) <= _FARTHEST:
        found.append((decision.kind, 0, len(yes), decision.value))
    else:  # an unconditional jump reaches everywhere: over it where the answer is yes
        found += [(decision.kind, 1, 0, decision.value), (_JUMP, 0, 0, len(yes))]
    return [*found, *yes, *no]
