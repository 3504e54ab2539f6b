"""What a search in output looks for: `LineQuery`, a text or a regular expression, in lines of UTF-8 bytes.

Pure.

Beside `pattern`, which reads what models write as they mean it, this one takes a person at their word: a text
is a text, the case counts unless it is said not to, and what is no regular expression is refused. The engine
is RE2 for both (decision 174).
"""

import re
from collections.abc import Iterator

from outlive.core.errors import InvalidRequest
from outlive.operations.search import MAX_TEXT_CHARACTERS
from outlive.protocols.output.pattern import compile_lines, matching_lines


class LineQuery:
    """Finds lines that match.

    Attributes:
        text: As the caller has written it.
        is_regex: It is a regular expression.
        ignores_case: Letters match in either case.
    """

    __slots__ = ("_compiled", "ignores_case", "is_regex", "text")

    def __init__(self, text: str, *, is_regex: bool = False, ignores_case: bool = False) -> None:
        """Compile `text`.

        Raises:
            InvalidRequest: It is empty, too long, has a line end, or is no regular expression.
        """
        if not text or len(text) > MAX_TEXT_CHARACTERS or "\n" in text:
            raise InvalidRequest(
                "invalid_params",
                f"What is looked for has 1 to {MAX_TEXT_CHARACTERS} characters, and no line end.",
                hint="Look for a few words of one line.",
            )
        self.text, self.is_regex, self.ignores_case = text, is_regex, ignores_case
        try:
            pattern = text if is_regex else re.escape(text)
            self._compiled = compile_lines(pattern, is_case_sensitive=not ignores_case)
        except ValueError as error:
            raise InvalidRequest(
                "invalid_params",
                f"{text[:80]!r} is no regular expression: {str(error)[:200]}.",
                hint=(
                    "RE2 has no look-around and no back-references; without regex it is looked for as "
                    "it stands."
                ),
            ) from None

    def lines(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield each line of `data` that matches: where it begins and ends, and where its first match begins
        and ends.
        """
        return matching_lines(self._compiled, data)
