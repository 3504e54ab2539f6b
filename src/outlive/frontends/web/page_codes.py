"""The codes that open the page (`PageCodes`): each counts once, for a minute, in this server's memory only.

Pure.

Kept is a code's hash, so that nobody who reads the server's memory later has the code, and its file has a
name that says nothing. The time is an argument: monotonic seconds. What a code becomes is `door`'s business,
the files that send codes are `opener_files`'.
"""

from outlive.core.values import dataclass
from outlive.policy.access import Scope, digest_of

# long enough for a browser that has to start, short enough that a file left lying about is worth nothing
LIFE_S = 60.0
_MOST = 32  # unused codes at a time: beyond that the oldest one counts no more


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCode:
    """One code that was given out: the scope of its page, and until when it counts."""

    digest: str
    scope: Scope
    ends_at: float


class PageCodes:
    """The codes that still count."""

    def __init__(self) -> None:
        self._codes: dict[str, PageCode] = {}  # by digest, oldest first

    def add(self, code: str, scope: Scope, *, now: float) -> PageCode:
        """Let `code`, which is drawn at random, open one page with that scope."""
        made = PageCode(digest=digest_of(code), scope=scope, ends_at=now + LIFE_S)
        self._codes[made.digest] = made
        if len(self._codes) > _MOST:
            del self._codes[next(iter(self._codes))]
        return made

    def take(self, code: str, *, now: float) -> PageCode | None:
        """Return what a code opens, this once; None for one that is unknown, was used, or has ended."""
        # Found by its hash: how long that takes shows nothing of the code.
        found = self._codes.pop(digest_of(code), None)
        return None if found is None or found.ends_at <= now else found

    def forget_ended(self, *, now: float) -> None:
        """Drop the codes that have ended."""
        self._codes = {digest: one for digest, one in self._codes.items() if one.ends_at > now}

    @property
    def digests(self) -> frozenset[str]:
        """The hashes of all that still count, as far as they have not ended meanwhile."""
        return frozenset(self._codes)

    @property
    def next_end(self) -> float | None:
        """When the first one ends; None while there is none."""
        return min((one.ends_at for one in self._codes.values()), default=None)
