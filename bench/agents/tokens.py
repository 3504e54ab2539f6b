"""Tokens of o200k_base, counted by a program in the environment of `scripts/agent-peers.sh`."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.measure import Unavailable

_ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = _ROOT / ".agent-peers"  # by scripts/agent-peers.sh
_PROGRAM = _ROOT / "bench" / "peers" / "token_counter.py"


# A server that answers with 200 MB would be counted for minutes; what is longer is counted at both ends, in
# proportion.
_MOST_CHARS = 2_000_000


class TokenCounter:
    """Counts tokens; a process beside this one, which ends with the `with` block."""

    def __init__(self) -> None:
        """Start the counter.

        Raises:
            Unavailable: It is not installed.
        """
        python = PEERS / "counter" / "bin" / "python"
        if not python.exists():
            raise Unavailable("the counter of tokens is not installed (scripts/agent-peers.sh counter)")
        self._process = subprocess.Popen(
            [python, str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._counted: dict[str, int] = {}  # schemas come again with every task

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, an estimate where it has millions of characters (blocks)."""
        if len(text) > _MOST_CHARS:
            half = _MOST_CHARS // 2
            ends = self.count(text[:half]) + self.count(text[-half:])
            return round(ends * len(text) / _MOST_CHARS)
        if text not in self._counted:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(text) + "\n")
            self._process.stdin.flush()
            self._counted[text] = int(self._process.stdout.readline())
        return self._counted[text]

    def __enter__(self) -> Self:
        """Return the counter."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
