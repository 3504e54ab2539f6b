"""Which lines of output report an error, by the table of `error_forms`: `looks_like_error`. Pure."""

import re
from collections.abc import Iterable, Iterator

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick

from outlive.core.values import replace
from outlive.protocols.output.binary import is_binary
from outlive.protocols.output.error_forms import ERROR_FORMS
from outlive.protocols.plain import Line, strip_ansi

# A longer line is a piece of data or a minified program; what a tool says of it stands at its beginning.
_SEARCHED_CHARACTERS = 2000
# Most lines have none of the needles: all of them are looked for at once, in 0.2 us a line, and then only the
# forms whose needles are there. One regular expression of all forms takes 100 us a line (bench: 70
# characters, "INFO request … interrupted").
_NEEDLES = [(needle, place) for place, form in enumerate(ERROR_FORMS) for needle in form.needles.split("|")]
_AUTOMATON = AhoCorasick([needle for needle, _ in _NEEDLES])
_BYTES_AUTOMATON = BytesAhoCorasick([needle.encode() for needle, _ in _NEEDLES])
_PATTERNS = [re.compile(form.pattern) for form in ERROR_FORMS]
# A test or a step that passed is named for what it checks: "test_error_is_shown PASSED", "ok 3 - fatal: is
# said".
_PASSED = re.compile(r"^(?:ok \d|\s*(?:✓|✔|√|PASS\b|--- PASS))|\bPASSED\b|\.\.\. ok$")


def looks_like_error(text: str) -> bool:
    """Tell whether a line without escape sequences reports an error, as far as the forms of the table go."""
    text = text[:_SEARCHED_CHARACTERS]
    hits = _AUTOMATON.find_matches_as_indexes(text.lower(), overlapping=True)
    if not hits or _PASSED.search(text):
        return False
    # A set: several needles may lead to one form.
    return any(_PATTERNS[form].search(text) for form in {_NEEDLES[hit][1] for hit, _, _ in hits})


def error_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each line of `data` that reports an error begins and ends.

    Most of a long log costs one look for the needles.
    """
    searched = 0
    for _, hit, _ in _BYTES_AUTOMATON.find_matches_as_indexes(data.lower()):
        if hit < searched:
            continue  # in a line that was looked at
        # Bytes are searched and few lines decoded: to decode all of a log costs ten times the search.
        begin = data.rfind(b"\n", 0, hit) + 1
        end = data.find(b"\n", hit)
        end = searched = len(data) if end < 0 else end
        text = data[begin:end].decode("utf-8", "replace")
        if looks_like_error(strip_ansi(text)) and not is_binary(text):
            yield begin, end


def with_errors(lines: Iterable[Line]) -> list[Line]:
    """Return lines, of which those that report an error say so."""
    return [
        replace(line, is_error=True) if not line.is_mark and looks_like_error(line.text) else line
        for line in lines
    ]
