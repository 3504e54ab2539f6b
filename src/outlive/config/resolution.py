"""From flags, environment and configuration files to `Settings`: which value wins, and where it came from.

Pure.

Flags > environment > project file (which may only tighten) > user file > system file > default. Reads nothing
itself: the files come in as text, so that the order can be tested and nothing hidden is believed.

Configuration files as text: TOML to one text for each option, and what a project's file may change
(`is_tighter`). Pure.

A key is an option's flag with underscores (`jsonrpc_port = 8003`); a value is text as a flag has it, a
number, true or false, or a list of words. An unknown key is an error: a misspelt limit would limit nothing. A
project's file may only allow less.

Files are found and read by `discovery.config_files`; which file wins is decided by `resolution`.
"""

import functools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, assert_never

from outlive.config.options import HIDING, Option, Tightening
from outlive.config.settings import Settings, all_options, settings_of
from outlive.core.command import Profile
from outlive.core.documents import BadDocument, decode_toml
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import absolute_path, default_state_dir
from outlive.core.values import dataclass
from outlive.extensions.contract import own_variables

FileKind = Literal["project", "user", "system"]


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
    try:
        return decode_toml(file.text)
    except BadDocument as error:
        raise ConfigInvalid(
            "config_invalid",
            f"{file.path} is no TOML: {error}.",
            hint='Each line is `key = value`, for example `jsonrpc_port = 8003` or `retention = "7d"`.',
        ) from None


@functools.cache
def _by_key() -> Mapping[str, Option]:
    return {option.key: option for option in all_options()}


def _option(file: ConfigFile, key: str) -> Option:
    """Return the option of a key; hyphens count as underscores, since flags have them."""
    keys = _by_key()
    option = keys.get(key.replace("-", "_"))
    if option is not None:
        return option
    import difflib  # noqa: PLC0415 -- as above

    near = difflib.get_close_matches(key.replace("-", "_"), keys, n=1, cutoff=0.6)
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
        case [*words] if option.kind == "program" and all(isinstance(word, str) for word in words):
            return shlex.join(map(str, words))
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


Source = Literal["flag", "environment", "operator", "project", "user", "system", "default"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: the kind of source, its name (a flag, a variable, a file), and the text
    there.
    """

    source: Source
    place: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The settings, and where each came from.

    The origin matters later, too: a taken port is an error if it was chosen, and is skipped if it is the
    default.
    """

    settings: Settings
    origins: Mapping[str, Origin]


HIDDEN = "(hidden)"  # what is shown of a secret; whether there is one, its origin tells


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """An option as it is in effect: its key in a configuration file, its value as text, where that came from,
    what it is for.
    """

    key: str
    value: str
    source: Source
    place: str
    help: str


def effective_settings(resolution: Resolution) -> tuple[EffectiveSetting, ...]:
    """Return every option in the table's order; a secret's value is not among them."""
    rows = [(option, resolution.origins[option.name]) for option in all_options()]
    return tuple(
        EffectiveSetting(
            key=option.key,
            value=HIDDEN if option.is_secret and origin.text else origin.text,
            source=origin.source,
            place=origin.place,
            help=option.sentence,
        )
        for option, origin in rows
    )


def resolve(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    working_folder: str,
    files: Sequence[ConfigFile] = (),
    options: Iterable[Option] | None = None,
    remembered: Mapping[str, str] | None = None,
) -> Resolution:
    """Return the settings.

    Args:
        flags: Option name to text, only those that were given.
        environ: The environment; an empty variable counts as unset.
        working_folder: Absolute; a relative state folder is relative to it.
        files: The configuration files, in any order, at most one of each kind.
        options: The options that are resolved, all by default; others keep their
            defaults, even when a source sets them.
        remembered: Option name to text, the settings of the folder's operator. They come before the files,
            and the environment does not count; a project's file may tighten them, and values that would
            loosen them are ignored.

    Raises:
        ConfigInvalid: A value cannot be understood, a file has an unknown key, or a project file loosens
            something; the message names the flag, variable or file.
    """
    wanted = {option.name for option in (all_options() if options is None else options)}
    entries = {file.kind: read_entries(file) for file in files}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for option in all_options():
        is_wanted = option.name in wanted
        said = (
            [places[option.name] for places in _files(entries) if option.name in places] if is_wanted else []
        )
        origin = _given(option, flags, environ if remembered is None else {}) if is_wanted else None
        if origin is None and remembered is not None and option.name in remembered:
            origin = _of_operator(option, remembered[option.name], said)
        if origin is None and said:
            origin = _of_files(option, said)
        if origin is None:
            text = option.default if option.name != "state_dir" else default_state_dir(environ)
            origin = Origin("default", option.flag, text)
        values[option.name] = _parsed(option, origin)
        origins[option.name] = origin
    values["state_dir"] = absolute_path(values["state_dir"], environ, working_folder)
    return Resolution(settings=settings_of(values), origins=origins)


def misspelt_names(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (name, the name that was probably meant) for variables of ours that no option reads."""
    known = [name for option in all_options() for name in option.env]
    unknown = [
        name
        for name in environ
        if name.startswith("OUTLIVE_") and name not in known and not name.startswith(own_variables())
    ]
    if not unknown:
        return []
    import difflib  # noqa: PLC0415 -- start-up time: 5 ms that only a misspelt name has to pay

    near = ((name, difflib.get_close_matches(name, known, n=1, cutoff=0.85)) for name in unknown)
    return [(name, matches[0]) for name, matches in near if matches]


def _files(entries: Mapping[FileKind, dict[str, FileEntry]]) -> list[dict[str, FileEntry]]:
    """Return the files' entries, the strongest file first."""
    strongest_first: tuple[FileKind, ...] = ("project", "user", "system")
    return [entries[kind] for kind in strongest_first if kind in entries]


def _given(option: Option, flags: Mapping[str, str], environ: Mapping[str, str]) -> Origin | None:
    """Return the value from flag or environment; None when neither sets the option."""
    if option.name in flags:
        return Origin("flag", option.flag, flags[option.name])
    for name in option.env:
        if environ.get(name):
            return Origin("environment", name, environ[name])
    return None


def _of_operator(option: Option, text: str, said: list[FileEntry]) -> Origin:
    """Return the operator's value, or the project's where that one is tighter."""
    origin = Origin("operator", option.flag, text)
    entry = said[0] if said and said[0].file.kind == "project" else None
    if entry is None or option.project is None:
        return origin
    tighter = Origin("project", f"{entry.file.path}: {option.key}", entry.text)
    is_allowed = is_tighter(option.project, _parsed(option, tighter), than=_parsed(option, origin))
    return tighter if is_allowed else origin


def _of_files(option: Option, said: list[FileEntry]) -> Origin:
    """Return the strongest file's value.

    A project's value is compared with the one that would count without it.
    """
    entry = said[0]
    origin = Origin(entry.file.kind, f"{entry.file.path}: {option.key}", entry.text)
    if entry.file.kind != "project":
        return origin
    if option.project is None:
        raise ConfigInvalid(
            "config_invalid",
            f"{entry.file.path} sets {option.key}, which a project may not decide.",
            hint="Set it in the user's configuration file, or by flag or environment variable.",
            details={"option": option.name},
        )
    below = (
        Origin(said[1].file.kind, f"{said[1].file.path}: {option.key}", said[1].text)
        if said[1:]
        else Origin("default", option.flag, option.default)
    )
    if not is_tighter(option.project, _parsed(option, origin), than=_parsed(option, below)):
        raise ConfigInvalid(
            "config_invalid",
            f"{entry.file.path} may only tighten {option.key}: {entry.text[:80]!r} allows more than "
            f"{below.text[:80]!r} ({below.place}).",
            hint=(
                "What allows more belongs into the user's configuration file, a flag or an environment "
                "variable."
            ),
            details={"option": option.name},
        )
    return origin


def _parsed(option: Option, origin: Origin) -> object:
    """Return the value; an error names the source as the user wrote it, and an example to copy."""
    try:
        return option.parse(origin.text)
    except ValueError as error:
        equals = " = " if origin.source in {"project", "user", "system"} else "="
        text, why = repr(origin.text[:80]), str(error)
        if option.is_secret:  # an error repeats the value, or a part of it, in words of its own
            text, why = HIDDEN, "it is no such value"
        raise ConfigInvalid(
            "config_invalid",
            f"{origin.place}{equals}{text} cannot be used: {why}.",
            hint=f"For example {origin.place}{equals}{option.example}.",
            details={"option": option.name},
        ) from None
