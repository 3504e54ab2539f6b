"""A text that a call waits for in output: `AwaitedText` (promise S4.13.waits). Pure.

Letter case is ignored. A wish is met by its text or by the regular expression that it is (RE2's); neither
begins inside a word, since `ready` is not what "address already in use" says, and both may end in one.
"""

import contextlib
import re

from outlive.protocols.output.pattern import compile_lines
from outlive.protocols.plain import without_escapes

# What stands before a wish: the edge of a word, or anything but a part of one.
_NOT_INSIDE_A_WORD = r"(?:\b|^|\W)"
# "[y/N]", "...", "$ ", "Continue?": as regular expressions they are met by much else, and are meant as they
# stand.
_NO_PATTERN = re.compile(r"[^\w*+\\]*(?:\[[^\]]*\][^\w*+\\]*)?|.*\w\?(?:\s.*)?", re.DOTALL)


class AwaitedText:
    """One wished text, compiled; `text` is as the caller has written it."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        literal = re.escape(text.strip("\r\n"))
        forms = [f"{literal}|{text}", literal]
        for form in forms[1:] if _NO_PATTERN.fullmatch(text) else forms:
            with contextlib.suppress(ValueError):
                # No capitals count: servers say "Listening", and models ask for "listening".
                self._compiled = compile_lines(f"{_NOT_INSIDE_A_WORD}(?:{form})", is_case_sensitive=False)
                if self._compiled.search(b"") is None:  # else any output would meet it
                    return

    def is_in(self, data: bytes) -> bool:
        """Tell whether output has it, as it was written or as a terminal shows it."""
        if self._compiled.search(data) is not None:
            return True
        if b"\x1b" not in data:
            return False
        # A colour ends in a letter, which is no part of the word behind it. What moves the cursor parts
        # words, and what colours them does not, so both are tried.
        text = data.decode("utf-8", "replace")
        return any(
            self._compiled.search(without_escapes(text, instead=one).encode()) is not None
            for one in ("", "\n")
        )
