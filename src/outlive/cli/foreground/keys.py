"""The keys that leave a command running, as docker writes them: `DetachKeys`. Sans I/O."""

from outlive.core.errors import InvalidRequest

_CTRL_MARKS = {"@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31}


class DetachKeys:
    r"""Finds a sequence of keys in what is typed; what may be its beginning is held back until the next key.

    "ctrl-p,ctrl-q": ctrl- with a letter or one of @ [ \ ] ^ _, or single characters, separated by commas. Empty: none.
    """

    def __init__(self, text: str) -> None:
        """Read the sequence.

        Raises:
            InvalidRequest: It is none.
        """
        self._sequence = bytes(_byte(word) for word in text.split(",")) if text else b""
        self._held = b""

    def take(self, typed: bytes) -> tuple[bytes, bool]:
        """Return what of all that was typed goes to the command, and whether the sequence is complete."""
        if not self._sequence:
            return typed, False
        waiting = self._held + typed
        found = waiting.find(self._sequence)
        if found >= 0:
            self._held = b""
            return waiting[:found], True
        size = len(self._sequence) - 1
        while size and not waiting.endswith(self._sequence[:size]):
            size -= 1
        self._held = waiting[len(waiting) - size :] if size else b""
        return waiting[: len(waiting) - size], False


def _byte(word: str) -> int:
    if len(word) == 1 and word.isascii():
        return ord(word)
    prefix, _, key = word.lower().partition("-")
    if prefix == "ctrl" and len(key) == 1:
        if "a" <= key <= "z":
            return ord(key) - ord("a") + 1
        if key in _CTRL_MARKS:
            return _CTRL_MARKS[key]
    raise InvalidRequest(
        "invalid_params",
        f"--detach-keys: {word!r} is no key.",
        hint="Keys are single characters or ctrl-<letter>, separated by commas: ctrl-p,ctrl-q.",
    )
