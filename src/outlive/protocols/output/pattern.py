r"""What a caller looks for in output: `Pattern`, a regular expression that costs time in proportion to what
it searches, and `AwaitedText`, what a call waits for (promise S4.13.waits). Pure.

The engine is RE2, which has no backtracking: no pattern and no output makes it run for long (decision 174).
The price is that it knows no look-around and no back-references; what it cannot read is looked for as plain
text, and the answer says so.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from outlive.core.errors import InvalidRequest
from outlive.protocols.plain import without_escapes

# A pattern is written by hand or by a model: more is a mistake, such as a whole log pasted into it.
MAX_PATTERN_CHARACTERS = 1000
# For the compiled pattern and the states it makes while it searches; RE2's own default. Beyond it, it is
# slower, never larger.
_MEMORY_BYTES = 8 * 1024 * 1024
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_UPPER = re.compile(r"[^\W\d_]")


class Pattern:
    r"""One compiled pattern; finds lines in UTF-8 bytes.

    As in ripgrep's smart case, letters match in either case unless the pattern has an upper-case one (`\S`
    and `\W` do not count).

    Attributes:
        text: As the caller has written it.
        is_literal: It is no regular expression, and was taken as plain text.
        is_case_sensitive: It has an upper-case letter.
    """

    __slots__ = ("_compiled", "is_case_sensitive", "is_literal", "text")

    def __init__(self, text: str) -> None:
        """Compile `text`.

        Raises:
            InvalidRequest: It is too long, or empty.
        """
        if not text or len(text) > MAX_PATTERN_CHARACTERS:
            raise InvalidRequest(
                "invalid_params",
                f"grep takes 1 to {MAX_PATTERN_CHARACTERS} characters, not {len(text)}.",
                hint='Look for a few words of the line, as in "error|failed".',
            )
        self.text = text
        self.is_literal = False
        self.is_case_sensitive = any(one.isupper() for one in _UPPER.findall(_ESCAPED.sub("", text)))
        try:
            self._compiled = compile_lines(text, is_case_sensitive=self.is_case_sensitive)
        except ValueError:
            self.is_literal = True
            self._compiled = compile_lines(re.escape(text), is_case_sensitive=self.is_case_sensitive)

    def lines(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield each line of `data` that matches: where it begins and ends, and where its first match begins
        and ends.
        """
        return matching_lines(self._compiled, data)

    def is_in(self, data: bytes) -> bool:
        """Tell whether a line of `data` matches."""
        return next(self.lines(data), None) is not None


def compile_lines(pattern: str, *, is_case_sensitive: bool) -> Any:  # noqa: ANN401 -- re2 has no types
    """Return what searches bytes for a pattern, line by line: `^` and `$` are the ends of a line, and no
    match reaches over one.

    Raises:
        ValueError: It is no regular expression of RE2's.
    """
    import re2  # noqa: PLC0415 -- 25 ms, which a server without a search need not pay

    options = re2.Options()
    options.log_errors = False  # it would write to the server's stderr
    options.never_nl = True  # `[^x]` must not reach into the next line
    # Only where a match begins is asked: without groups the fastest engine serves.
    options.never_capture = True
    options.max_mem = _MEMORY_BYTES
    options.case_sensitive = is_case_sensitive
    try:
        return re2.compile(f"(?m){pattern}".encode(), options)
    except re2.error as error:
        said = error.args[0] if error.args else b""
        # RE2 quotes the pattern that it was given, in bytes.
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(text.replace("(?m)", "", 1)) from None


def matching_lines(compiled: Any, data: bytes) -> Iterator[tuple[int, int, int, int]]:  # noqa: ANN401 -- RE2 has no types
    """Yield each line of `data` that matches: where it begins and ends, and where its first match begins and
    ends.
    """
    position = 0
    while position < len(data):
        found = compiled.search(data, position)
        if found is None:
            return
        hit: int = found.start()
        begin = data.rfind(b"\n", 0, hit) + 1
        end = data.find(b"\n", hit)
        if end < 0:
            end = len(data)
        if begin < len(data):  # not the empty string behind the last newline
            yield begin, end, hit, found.end()
        position = end + 1


# What stands before a wish: the edge of a word, or anything but a part of one.
_NOT_INSIDE_A_WORD = r"(?:\b|^|\W)"
# "[y/N]", "...", "$ ", "Continue?": as regular expressions they are met by much else, and are meant as they
# stand.
_NO_PATTERN = re.compile(r"[^\w*+\\]*(?:\[[^\]]*\][^\w*+\\]*)?|.*\w\?(?:\s.*)?", re.DOTALL)


class AwaitedText:
    """One wished text, compiled; `text` is as the caller has written it.

    Letter case is ignored. A wish is met by its text or by the regular expression that it is; neither begins
    inside a word, since `ready` is not what "address already in use" says, and both may end in one.
    """

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
