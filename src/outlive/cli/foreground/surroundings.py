"""What a program inherits from its shell besides folder and environment: closed descriptors, ignored signals.

The keeper spawns commands with none of that. Where ours is not the usual, a shell sets it and becomes the command. Umask and
niceness travel with every start (`client.options`).
"""

import os
import signal
from collections.abc import Mapping, Sequence

from outlive.discovery.own_kind import TOKEN_VARIABLE

_REDIRECTIONS = ("<&-", ">&-", "2>&-")
# Python ignores these itself: whether they were ignored before nobody knows any more.
_NOT_KNOWN = {signal.SIGPIPE, signal.SIGXFSZ}


class Surroundings:
    """Ours, as they were found; `found` is to be called before anything else is opened."""

    def __init__(self, environment: Mapping[str, str], closed: Sequence[int], ignored: Sequence[int]) -> None:
        """Keep the environment, closed standard descriptors and numbers of ignored signals."""
        self.environment = environment
        self.closed = tuple(closed)
        self.ignored = tuple(ignored)

    @classmethod
    def found(cls) -> "Surroundings":
        """Look, and open /dev/null in the place of standard descriptors that are closed.

        The next file would else take such a number.
        """
        closed = []
        for descriptor in (0, 1, 2):
            try:
                os.fstat(descriptor)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
                closed.append(descriptor)
        ignored = [
            int(number)
            for number in signal.valid_signals() - _NOT_KNOWN
            if signal.getsignal(number) is signal.SIG_IGN
        ]
        return cls(_environment(), closed, sorted(ignored))

    @property
    def preparation(self) -> str:
        """The shell's words that make them so; empty where they are the usual ones."""
        words = []
        if self.ignored:
            words.append(f"trap '' {' '.join(map(str, self.ignored))}")
        if self.closed:
            words.append("exec " + " ".join(_REDIRECTIONS[descriptor] for descriptor in self.closed))
        return "; ".join(words)

    def around(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words that run `argv` in them."""
        preparation = self.preparation
        if not preparation:
            return argv
        return ("/bin/sh", "-c", f'{preparation}; exec "$@"', "outlive", *argv)

    def around_line(self, line: str) -> str:
        """Return a shell line that is `line` in them."""
        preparation = self.preparation
        return f"{preparation}\n{line}" if preparation else line


def _environment() -> Mapping[str, str]:
    """Return the environment as it was before Python added to it (LC_CTYPE, PEP 538), without our own token."""
    try:
        with open("/proc/self/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    pairs = (os.fsdecode(entry).partition("=") for entry in reversed(raw.split(b"\0")))
    return {name: value for name, equals, value in pairs if equals and name not in {"", TOKEN_VARIABLE}}
