"""Configuration files as text: TOML to one text for each option, and what a project's file may change (`is_tighter`). Pure.

A key is an option's flag with underscores (`jsonrpc_port = 8003`); a value is text as a flag has it, a number, true or false, or
a list of words. An unknown key is an error: a misspelt limit would limit nothing. A project's file may only allow less.

Files are found and read by `discovery.config_files`; which file wins is decided by `resolution`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from outlive.config.options import Option, Tightening
from outlive.config.settings import OPTIONS
from outlive.config.values import HIDING
from outlive.core.errors import ConfigInvalid
from outlive.core.sandbox import Profile

FileKind = Literal["project", "user", "system"]
_KEYS = {option.key: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that was read: its kind, its path for messages, its content."""

    kind: FileKind
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file's value of one option, as text."""

    file: ConfigFile
    text: str


def read_entries(file: ConfigFile) -> dict[str, FileEntry]:
    """Return option name -> entry.

    Raises:
        ConfigInvalid: The file is not TOML, has an unknown key, or a value of an unusable type.
    """
    return {
        _option(file, key).name: FileEntry(file, _text(file, key, value))
        for key, value in _parse(file).items()
    }


def _parse(file: ConfigFile) -> Mapping[str, object]:
    import tomllib  # noqa: PLC0415 -- start-up time: most servers have no file

    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(
            "config_invalid",
            f"{file.path} is no TOML: {error}.",
            hint='Each line is `key = value`, for example `jsonrpc_port = 8003` or `retention = "7d"`.',
        ) from None


def _option(file: ConfigFile, key: str) -> Option:
    """Return the option of a key; hyphens count as underscores, since flags have them."""
    option = _KEYS.get(key.replace("-", "_"))
    if option is not None:
        return option
    import difflib  # noqa: PLC0415 -- as above

    near = difflib.get_close_matches(key.replace("-", "_"), _KEYS, n=1, cutoff=0.6)
    raise ConfigInvalid(
        "config_invalid",
        f"{file.path}: {key[:60]!r} is no option.",
        hint=f"Did you mean {near[0]}?" if near else "`outlive config show` lists all options.",
    )


def _text(file: ConfigFile, key: str, value: object) -> str:
    """Return a TOML value as the text that a flag would have, so that one parser serves both."""
    option = _option(file, key)
    match value:
        case bool():
            return "on" if value else "off"
        case int() | float() | str():
            return str(value)
        case [*words] if all(isinstance(word, str) and option.separator not in word for word in words):
            return option.separator.join(map(str, words))
        case _:
            raise ConfigInvalid(
                "config_invalid",
                f"{file.path}: {key} needs text, a number, true or false, or a list of words without "
                f"{'line ends' if option.separator == chr(10) else 'commas'}.",
                hint=f"For example {key} = {option.example!r}.",
            )


# Within each row a later word allows less: verdicts, and which commands share a container.
_STRICTNESS = {
    word: place for row in (("allow", "ask", "deny"), ("session", "strict")) for place, word in enumerate(row)
}


def is_tighter(rule: Tightening, value: Any, *, than: Any) -> bool:  # noqa: ANN401 -- one type for each option
    """Tell whether a value allows at most what another one does (the same value does).

    Args:
        rule: What tighter means for this option.
        value: The value in the project's file, parsed.
        than: The value that counts without it, parsed.
    """
    match rule:
        case "lower":  # None stands for no bound
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
    # An empty list of allowed words allows everything, so it is not a subset of any other list.
    return not words or "*" in words
