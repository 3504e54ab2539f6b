"""From flags, environment and configuration files to `Settings`: which value wins, and where it came from. Pure.

Flags > environment > project file (which may only tighten) > user file > system file > default. Reads nothing itself:
the files come in as text, so that the order can be tested and nothing hidden is believed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from outlive.config.door_settings import NODE_TOKEN
from outlive.config.files import ConfigFile, FileEntry, FileKind, is_tighter, read_entries
from outlive.config.options import Option
from outlive.config.settings import OPTIONS, Settings
from outlive.core.errors import ConfigInvalid
from outlive.core.state_path import absolute_path, default_state_dir

Source = Literal["flag", "environment", "operator", "project", "user", "system", "default"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: the kind of source, its name (a flag, a variable, a file), and the text there."""

    source: Source
    place: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The settings, and where each came from.

    The origin matters later, too: a taken port is an error if it was chosen, and is skipped if it is the default.
    """

    settings: Settings
    origins: Mapping[str, Origin]

    @property
    def sources(self) -> dict[str, Source]:
        """The kind of source of each option."""
        return {name: origin.source for name, origin in self.origins.items()}


def resolve(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    working_folder: str,
    files: Sequence[ConfigFile] = (),
    options: Iterable[Option] = OPTIONS,
    remembered: Mapping[str, str] | None = None,
) -> Resolution:
    """Return the settings.

    Args:
        flags: Option name to text, only those that were given.
        environ: The environment; an empty variable counts as unset.
        working_folder: Absolute; a relative state folder is relative to it.
        files: The configuration files, in any order, at most one of each kind.
        options: The options that are resolved; all others keep their defaults, even when a source sets them.
        remembered: Option name to text, the settings of the folder's operator. They come before the files, and the environment
            does not count; a project's file may tighten them, and values that would loosen them are ignored.

    Raises:
        ConfigInvalid: A value cannot be understood, a file has an unknown key, or a project file loosens something; the
            message names the flag, variable or file.
    """
    wanted = {option.name for option in options}
    entries = {file.kind: read_entries(file) for file in files}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for option in OPTIONS:
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
    return Resolution(settings=Settings(**values), origins=origins)


def misspelt_names(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (name, the name that was probably meant) for variables of ours that no option reads."""
    known = [name for option in OPTIONS for name in option.env]
    unknown = [
        name
        for name in environ
        if name.startswith("OUTLIVE_") and name not in known and not name.startswith(NODE_TOKEN)
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
    """Return the strongest file's value; a project's value is compared with the one that would count without it."""
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
            hint="What allows more belongs into the user's configuration file, a flag or an environment variable.",
            details={"option": option.name},
        )
    return origin


def _parsed(option: Option, origin: Origin) -> object:
    """Return the value; an error names the source as the user wrote it, and an example to copy."""
    try:
        return option.parse(origin.text)
    except ValueError as error:
        equals = " = " if origin.source in {"project", "user", "system"} else "="
        raise ConfigInvalid(
            "config_invalid",
            f"{origin.place}{equals}{origin.text[:80]!r} cannot be used: {error}.",
            hint=f"For example {origin.place}{equals}{option.example}.",
            details={"option": option.name},
        ) from None
