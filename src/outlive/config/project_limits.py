"""What a project's configuration file may change: only towards less being allowed. Pure."""

from typing import Any, assert_never

from outlive.config.options import Tightening
from outlive.config.values import HIDING
from outlive.core.sandbox import Profile

# What stands further behind allows less: verdicts, and who shares a container.
_STRICTNESS = {
    word: place for row in (("allow", "ask", "deny"), ("session", "strict")) for place, word in enumerate(row)
}


def is_tighter(rule: Tightening, value: Any, *, than: Any) -> bool:  # noqa: ANN401 -- one type for each option
    """Tell whether a value allows at most what another one does (the same value does).

    Args:
        rule: What tighter means for this option.
        value: What the project's file says, parsed.
        than: What is in force without it, parsed.
    """
    match rule:
        case "lower":
            return than is None or (value is not None and bool(value <= than))
        case "subset":
            return _allows_all(than) or (not _allows_all(value) and set(value) <= set(than))
        case "superset":
            return set(value) >= set(than)
        case "on":
            return bool(value) or not than
        case "off":
            return not value or bool(than)
        case "narrower":
            return bool(than in {value, "all"})
        case "stronger":
            return Profile(value).strength >= Profile(than).strength
        case "stricter":
            return _STRICTNESS[value] >= _STRICTNESS[than]
        case "hides":
            return HIDING.index(value) >= HIDING.index(than)
        case _:
            assert_never(rule)


def _allows_all(words: tuple[str, ...]) -> bool:
    return not words or "*" in words
