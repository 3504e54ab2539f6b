"""Which machines may dial in as nodes: `NodeEntrance`, by the code or the credential that they show, and by
nothing else.

Neither the uid, nor a token, nor the API key counts here; and what counts here is, at every other path, a
token that is unknown. What counts always passes: many machines may share an address (a NAT, a proxy that ends
TLS), and one of them must not lock the others out. An address that shows wrong ones reads why once a second
at most.
"""

import time
from collections.abc import Callable, Sequence

from outlive.policy.access import Rates

# Of one address: four wrong ones at once, then one a second. 256 bits cannot be guessed at any rate; what is
# bounded is the noise, and a code that was cut off by a copy is typed again within a second.
_WRONG_PER_S = 1.0
# headers with a secret that are looked at; a node sends one, and each costs a hash and a look at all nodes
_MOST_SHOWN = 4
_HINT = "`outlive node invite NAME` on the server that is joined makes a code; `outlive node join` takes it."


class NodeEntrance:
    """Judges what is shown at one path.

    Attributes:
        path: The path.
    """

    def __init__(
        self, path: str, find: Callable[[str], str | None], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self._find = find
        self._now = now
        self._wrong = Rates(_WRONG_PER_S)

    def judge(self, shown: Sequence[str], address: str) -> str | tuple[str, str, str]:
        """Return the name of the node, or the slug, the sentence and the hint of a refusal."""
        if not shown:
            return (
                "token_missing",
                "A machine that joins shows the code of an invitation, and later its credential.",
                _HINT,
            )
        for secret in shown[:_MOST_SHOWN]:
            if (name := self._find(secret)) is not None:
                return name
        if self._wrong.take(address, self._now()):
            return (
                "rate_limited",
                "Too many wrong codes or credentials came from this address.",
                "Wait a second.",
            )
        return (
            "token_invalid",
            "The code or the credential is wrong, was used, has expired, or was taken back.",
            _HINT,
        )
