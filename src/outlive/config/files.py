"""Configuration files as text: TOML to one text for each option. Pure; finding and reading them is the command line's.

A key is an option's flag with underscores (`jsonrpc_port = 8003`); a value is text as a flag would have it, or a
number, true/false, or a list of words. An unknown key is an error: a misspelt limit is no limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from outlive.config.options import Option
from outlive.config.settings import OPTIONS
from outlive.core.errors import ConfigInvalid

FileKind = Literal["project", "user", "system"]
_KEYS = {option.key: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that was read: what kind of file, its path for messages, its content."""

    kind: FileKind
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a file says about one option, as text."""

    file: ConfigFile
    text: str


def read_entries(file: ConfigFile) -> dict[str, FileEntry]:
    """Return option name -> entry.

    Raises:
        ConfigInvalid: The file is no TOML, has a key that is no option, or a value that is no value.
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
