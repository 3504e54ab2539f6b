"""When a full-screen program leaves its screen: `LeaveWatch`, bytes in, bytes out. Sans I/O.

Ctrl-Z makes such a program put the terminal back, stop itself, and draw everything anew once it goes on. Behind a terminal
of its own, with no shell above it, it cannot stop (the kernel does not stop orphaned process groups, setpgid(2)) and draws
anew at once. That part is held back until we are in the foreground again.
"""

_LEAVES = (b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l")  # xterm: back from the alternate screen
_ENTERS = (b"\x1b[?1049h", b"\x1b[?1047h", b"\x1b[?47h")
_LONGEST = max(map(len, _LEAVES))


class LeaveWatch:
    """Watches output from the moment when Ctrl-Z was typed.

    Attributes:
        has_left: The program left its screen.
        has_entered: It came back to it; that and everything behind it is held back.
    """

    def __init__(self) -> None:
        """Nothing was seen."""
        self.has_left = self.has_entered = False
        self._tail = b""
        self._held = b""

    def take(self, data: bytes) -> bytes:
        """Return what of all that came may be shown now."""
        if self.has_entered:
            self._held += data
            return b""
        data = self._held + data
        self._held = b""
        start = 0
        if not self.has_left:
            seen = self._tail + data
            ends = [seen.find(mark) + len(mark) for mark in _LEAVES if mark in seen]
            self._tail = seen[-_LONGEST:]
            if not ends:
                return data
            self.has_left = True
            start = max(0, min(ends) - (len(seen) - len(data)))
        places = [place for mark in _ENTERS if (place := data.find(mark, start)) >= 0]
        if places:
            self.has_entered = True
            cut = min(places)
        else:
            cut = len(data) - _unfinished(data)
        self._held = data[cut:]
        return data[:cut]

    def rest(self) -> bytes:
        """Return what was held back; nothing is held any more."""
        held, self._held = self._held, b""
        return held


def _unfinished(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a mark."""
    return max(
        (size for mark in _ENTERS for size in range(1, len(mark)) if data.endswith(mark[:size])), default=0
    )
