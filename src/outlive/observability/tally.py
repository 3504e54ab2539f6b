"""Deeds that come in great numbers, told in few: `Tally`. What is typed at a terminal, refusals of one caller. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from outlive.core.events import AuditEvent

_QUIET_NS = 10 * 1_000_000_000
_MOST_KEYS = 1024
_TYPED = frozenset({"write", "resize"})

_Key = tuple[str | None, ...]


class Tally:
    """Lets the first of many like deeds pass at once; the others of the same ten seconds come as one, with their number."""

    def __init__(self) -> None:
        """Nothing was counted yet."""
        self._open: dict[_Key, tuple[int, AuditEvent, int, int]] = {}

    def pass_on(self, deed: AuditEvent, now_ns: int) -> Iterator[AuditEvent]:
        """Yield what is to be told now that `deed` has happened."""
        key = _key_of(deed)
        if key is None:
            yield deed
            return
        begun, _, times, size = self._open.get(key, (0, deed, 0, 0))
        if now_ns - begun < _QUIET_NS:
            more = deed.details.get("bytes", 0)
            self._open[key] = (begun, deed, times + 1, size + int(more))
            return
        yield from self._close([key] if len(self._open) < _MOST_KEYS else list(self._open))
        self._open[key] = (now_ns, deed, 0, 0)
        yield deed

    def of_process(self, process_id: str) -> Iterable[AuditEvent]:
        """Return what was counted of a process that has ended."""
        if not self._open:
            return ()
        return self._close([key for key in self._open if key[0] == process_id])

    def rest(self) -> Iterator[AuditEvent]:
        """Yield everything that was counted."""
        yield from self._close(list(self._open))

    def _close(self, keys: list[_Key]) -> Iterator[AuditEvent]:
        for key in keys:
            _, deed, times, size = self._open.pop(key, (0, None, 0, 0))
            if deed is not None and times:
                counted = {"times": times} | ({"bytes": size} if "bytes" in deed.details else {})
                yield replace(deed, details={**deed.details, **counted})


def _key_of(deed: AuditEvent) -> _Key | None:
    """Return what like deeds have in common; None for one that is told by itself."""
    by = deed.by
    if deed.what in _TYPED and deed.decision == "allowed":
        return (deed.process_id, deed.what, by.principal, by.address, by.connection_id)
    if deed.what == "access":
        host = by.address.rpartition(":")[0] or by.address  # a port is another one each time
        return (None, deed.what, deed.reason, host)
    return None
