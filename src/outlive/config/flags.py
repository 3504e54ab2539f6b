"""A strict reader of flags for the common case, made from the same table as the command line's help.

Owns the fast path of `outlive serve`: importing typer costs a third of the whole start (75 of 230 ms, measured).
Whatever it does not understand at once it leaves to typer, which explains mistakes far better.
"""

from collections.abc import Iterable, Sequence

from outlive.config.options import Option


def read_flags(words: Sequence[str], options: Iterable[Option]) -> dict[str, str] | None:
    """Return option name -> text; None when a word is no plain `--flag value`, `--flag=value` or `--switch`."""
    known = {option.flag: option for option in options}
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, text = word.partition("=")
        option = known.get(flag)
        if option is None or (option.is_switch and equals):
            return None
        if option.is_switch:
            text = "on"
        elif not equals:
            following = next(rest, None)
            if following is None or following.startswith("-"):
                return None
            text = following
        found[option.name] = text
    return found
