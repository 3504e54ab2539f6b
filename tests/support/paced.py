"""A shell program that writes to both streams at full speed with pauses between, and ends with a code of its
own.
"""

from dataclasses import dataclass

PACED_CODE = 23


@dataclass(frozen=True, slots=True)
class Paced:
    """`rounds` times a hundred lines to stdout and one to stderr.

    A pause of 50 ms after every `burst` rounds.
    """

    rounds: int
    burst: int

    @property
    def argv(self) -> list[str]:
        """The words that run it."""
        line = (
            f"i=0; while [ $i -lt {self.rounds} ]; do"
            ' seq $((i*100+1)) $((i*100+100)); echo "e$i" >&2;'
            f" i=$((i+1)); [ $((i % {self.burst})) -eq 0 ] && sleep .05; done; exit {PACED_CODE}"
        )
        return ["sh", "-c", line]

    @property
    def out(self) -> bytes:
        """What stdout holds in the end."""
        return b"".join(b"%d\n" % number for number in range(1, self.rounds * 100 + 1))

    @property
    def err(self) -> bytes:
        """What stderr holds in the end."""
        return b"".join(b"e%d\n" % number for number in range(self.rounds))
