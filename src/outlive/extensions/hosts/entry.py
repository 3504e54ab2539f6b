"""Our entry in a host's file: where the file is, what the entry says, and the file's text with it and without
it.

Pure but for `config_path` and `is_here`, which look which files, folders and programs there are.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence

from outlive.core.errors import ConfigInvalid
from outlive.extensions.hosts.editor import Editor, FormatName, NotEditable
from outlive.extensions.hosts.json_text import JsonText
from outlive.extensions.hosts.table import Host
from outlive.extensions.hosts.toml_text import TomlText

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what Claude Code takes; the others take more
# What an entry for a server behind an address has, in the words of each host.
_OTHER_TRANSPORTS = ("url", "httpUrl", "serverUrl", "uri", "headers", "http_headers", "oauth")


def is_name(text: str) -> bool:
    """Tell whether every host takes this name for a server."""
    return _NAME.fullmatch(text) is not None


def config_path(host: Host, environ: Mapping[str, str], *, project_folder: str | None = None) -> str:
    """Return the path of the host's file: the user's, or that of the project in `project_folder`.

    Raises:
        ConfigInvalid: The host has no project file, or there is no home folder.
    """
    if project_folder is None:
        return _first(_base(host, environ), host.files)
    if not host.project_files:
        raise ConfigInvalid(
            "config_invalid",
            f"{host.title} has no configuration of its own for a project.",
            hint="Leave out --project.",
        )
    return _first(project_folder, host.project_files)


def is_here(host: Host, environ: Mapping[str, str]) -> bool:
    """Tell whether the host is on this machine: its file, its folder or its program is."""
    if not host.files:
        return False
    base = _base(host, environ)
    return (
        any(os.path.lexists(os.path.join(base, name)) for name in host.files)
        or any(os.path.isdir(os.path.join(base, name)) for name in host.signs)
        or any(shutil.which(name, path=environ.get("PATH")) for name in host.programs)
    )


def _first(folder: str, names: Sequence[str]) -> str:
    paths = [os.path.join(folder, name) for name in names]
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def _base(host: Host, environ: Mapping[str, str]) -> str:
    moved = environ.get(host.moved_by, "") if host.moved_by else ""
    if moved.startswith("/"):
        return moved
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise ConfigInvalid(
            "config_invalid",
            f"There is no home folder to find {host.title}'s configuration in (HOME is not set).",
            hint="Set HOME, or use --project.",
        )
    return os.path.join(home, host.base) if host.base else home


def editor_of(name: FormatName) -> Editor:
    """Return the editor of a format."""
    match name:
        case "json" | "jsonc":
            return Editor(JsonText(has_comments=name == "jsonc"))
        case "toml":
            return Editor(TomlText())
        case "yaml":
            # Start-up time: one host needs the parser.
            from outlive.extensions.hosts.yaml_text import YamlText  # noqa: PLC0415

            return Editor(YamlText())


def new_entry(host: Host, name: str, *, program: Sequence[str]) -> dict[str, object]:
    """Return what the host wants to know of a server that runs `program`."""
    named: dict[str, object] = {"name": name} if host.names_itself else {}
    if not host.arguments:
        return {**host.fixed, **named, host.command: list(program)}
    return {**host.fixed, **named, host.command: program[0], host.arguments: list(program[1:])}


def entry_in(text: str, host: Host, name: str) -> object | None:
    """Return the server `name` of the host's document, None where it has none.

    Raises:
        NotEditable: The document cannot be understood.
    """
    return editor_of(host.format).value_at(text, (*host.section, name))


def with_entry(text: str, host: Host, name: str, *, program: Sequence[str]) -> str:
    """Return the host's document with a server `name` that runs `program`; everything else stays as it is.

    What a user has added to our entry (`env` for instance) stays, too, comments included.

    Raises:
        NotEditable: The document cannot be understood, or not changed without harm.
    """
    editor, path = editor_of(host.format), (*host.section, name)
    ours = new_entry(host, name, program=program)
    old = editor.value_at(text, path)
    if not isinstance(old, Mapping):
        return editor.put(text, path, value=ours)
    foreign = [key for key in _OTHER_TRANSPORTS if key in old]
    if "type" not in ours and old.get("type", "stdio") != "stdio":
        foreign.append("type")
    try:
        for key in foreign:
            text = editor.remove(text, (*path, key))
        for key, value in ours.items():
            text = editor.put(text, (*path, key), value=value)
    except NotEditable:  # not key by key: the entry stands on one line of TOML, for instance
        kept = {key: value for key, value in old.items() if key not in foreign}
        return editor.put(text, path, value={**kept, **ours})
    return text


def without_entry(text: str, host: Host, name: str) -> str:
    """Return the host's document without the server `name`.

    Raises:
        NotEditable: The document cannot be understood, or not changed without harm.
    """
    return editor_of(host.format).remove(text, (*host.section, name))


def text_before(current: str, host: Host, name: str, *, backups: Sequence[str]) -> str | None:
    """Return the backup that `current` was made from by adding our entry and nothing else; None where none
    was.

    A text from which an entry is taken out does not say whether an empty table, or the last line's end, was
    there before; a backup does. It counts only if adding the entry to it once more gives exactly the text of
    now.

    Args:
        current: The host's document with our entry.
        host: The host.
        name: What it calls the entry.
        backups: Earlier texts of the document, newest first.
    """
    editor, path = editor_of(host.format), (*host.section, name)
    entry = editor.value_at(current, path)
    for text in backups:
        try:
            if editor.value_at(text, path) is None and editor.put(text, path, value=entry) == current:
                return text
        except NotEditable:
            continue
    return None
