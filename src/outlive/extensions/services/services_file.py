"""From a project's files to its services: `parse_services`, `parse_procfile` and `parse_env_file`. Pure: the
caller reads the files.

The members of the TOML file are those of `declaration`; here stands only what it says differently: paths
beside the file, times as people write them, one word where a request has a list. Errors name the line, the
service and the member.

A line of a Procfile is `name: command`; the command is a shell's line and may use $PORT. As in foreman each
process gets a PORT of its own: the first the one that a file `.env` beside the Procfile names, else the
caller's environment, else 5000, and each one after it 100 more.

Source: foreman's manual, PROCFILE and ENVIRONMENT (https://ddollar.github.io/foreman).
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from outlive.config.options import LIMIT_READERS, parse_seconds
from outlive.core.documents import BadDocument, decode_toml
from outlive.core.errors import ConfigInvalid, InvalidRequest
from outlive.core.identity import is_name
from outlive.extensions.services.declaration import (
    MAX_SERVICES,
    Backoff,
    ReadyWhen,
    ServiceRequest,
    check_services,
    did_you_mean,
    unlike_an_id,
)
from outlive.operations.requests import convert_request
from outlive.operations.start import LimitsRequest

FILE_NAME = "outlive.processes.toml"
_SERVICES = "services"
# What stands above all services, and counts for each that does not say it itself.
_SHARED = ("environment", "env_file")
_MEMBERS = ServiceRequest.__struct_fields__
_NESTED: Mapping[str, tuple[str, ...]] = {
    "ready": ReadyWhen.__struct_fields__,
    "backoff": Backoff.__struct_fields__,
    "limits": LimitsRequest.__struct_fields__,
}
_HINT = "docs/services.md lists what a service may have."


def parse_services(text: str, *, folder: str, file: str = FILE_NAME) -> dict[str, ServiceRequest]:
    """Return the services that a file declares, in its order, with absolute paths.

    Args:
        text: The file's content.
        folder: Where it lies, absolute: relative paths begin there.
        file: What errors call it.

    Raises:
        ConfigInvalid: It is no TOML, or declares what makes no sense; the message names the line where it is
        known.
    """
    try:
        document = decode_toml(text)
    except BadDocument as error:
        raise _refusal(f"{file}: {error}.") from None
    place = _Places(text, file)
    _check_names(document, (_SERVICES, *_SHARED), place, path=())
    tables = document.get(_SERVICES)
    if not isinstance(tables, dict) or not tables:
        raise _refusal(
            f"{file} declares no service.", hint='Begin with [services.web] and command = "./server".'
        )
    services = {}
    for name, table in tables.items():
        path = (_SERVICES, name)
        if not isinstance(table, dict):
            raise _refusal(f"{place.of(path)}: a service is a table: [services.{name}].")
        _check_names(table, _MEMBERS, place, path=path)
        services[name] = _service(table, document, folder=folder, place=place, path=path)
    try:
        check_services(services)
    except InvalidRequest as error:
        # In the order of the path: the service, and the member of it, as far as the refusal is about one.
        member = (
            _SERVICES,
            *(str(error.details[one]) for one in ("service", "member") if one in error.details),
        )
        raise _refusal(f"{place.of(member)}: {error.message}", hint=error.hint) from None
    return services


def _service(
    table: Mapping[str, Any],
    document: Mapping[str, Any],
    *,
    folder: str,
    place: "_Places",
    path: tuple[str, ...],
) -> ServiceRequest:
    """Return one service; what stands above all of them counts for it, too."""
    members = dict(table)
    for name, known in _NESTED.items():
        if isinstance(members.get(name), dict):
            _check_names(members[name], known, place, path=(*path, name))
    shared, own = document.get("environment", {}), members.get("environment", {})
    if isinstance(shared, dict) and isinstance(own, dict):
        members["environment"] = {**shared, **own}
    files = [*_listed(document.get("env_file", [])), *_listed(members.get("env_file", []))]
    members["env_file"] = [_below(folder, one) for one in files]
    members["folder"] = _below(folder, members.get("folder", "."))
    if "after" in members:
        members["after"] = _listed(members["after"])
    _read_texts(members, {"grace": parse_seconds}, place, path)
    for name, readers in (
        ("backoff", dict.fromkeys(_NESTED["backoff"], parse_seconds)),
        ("limits", LIMIT_READERS),
    ):
        if isinstance(members.get(name), dict):
            members[name] = dict(members[name])
            _read_texts(members[name], readers, place, (*path, name))
    try:
        return convert_request(members, ServiceRequest)
    except InvalidRequest as error:
        parameter = str(error.details.get("parameter", ""))
        member = re.split(r"[.\[]", parameter)[0]
        where = place.of((*path, member) if member else path)
        raise _refusal(f"{where}: {'.'.join(path)}: {error.message}") from None


def _check_names(
    table: Mapping[str, Any], known: tuple[str, ...], place: "_Places", *, path: tuple[str, ...]
) -> None:
    for name in table:
        if name not in known:
            at = f"{'.'.join(path)}: " if path else ""
            text = f"{place.of((*path, name))}: {at}there is no member {name!r}.{did_you_mean(name, known)}"
            raise _refusal(text)


def _listed(value: object) -> list[Any]:
    """Return a list as it is, and anything else as a list of one: the check of types comes later."""
    return value if isinstance(value, list) else [value]


def _below(folder: str, path: object) -> object:
    """Return a path below the file's folder; ~ is the home folder."""
    if not isinstance(path, str):
        return path
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _read_texts(
    members: dict[str, Any],
    readers: Mapping[str, Callable[[str], float]],
    place: "_Places",
    path: tuple[str, ...],
) -> None:
    """Turn "500ms" into seconds and "2G" into bytes; a number is that already."""
    for name, read in readers.items():
        if isinstance(members.get(name), str):
            try:
                members[name] = read(members[name])
            except ValueError as error:
                raise _refusal(f"{place.of((*path, name))}: {'.'.join(path)}.{name}: {error}.") from None


class _Places:
    """Where in a TOML text a member stands, as far as that can be seen without parsing it once more."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file

    def of(self, path: tuple[str, ...]) -> str:
        """Return "FILE, line 7" for a member, or for the nearest table around it; "FILE" where neither is
        found.
        """
        for length in range(len(path), 0, -1):
            if (number := self._find(path[:length])) is not None:
                return f"{self._file}, line {number}"
        return self._file

    def _find(self, path: tuple[str, ...]) -> int | None:
        header: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, start=1):
            words = line.strip()
            if words.startswith("[") and (end := words.find("]")) > 0:
                header = _key(words[1:end].strip("["))
                if header[: len(path)] == path:
                    return number
            elif "=" in words and not words.startswith("#"):
                key = (*header, *_key(words.partition("=")[0]))
                if key[: len(path)] == path:
                    return number
        return None


def _key(words: str) -> tuple[str, ...]:
    return tuple(word.strip().strip("\"'") for word in words.split("."))


def _refusal(text: str, *, hint: str = _HINT) -> ConfigInvalid:
    return ConfigInvalid("config_invalid", text, hint=hint)


_NAME = re.compile(r"\s*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")
_QUOTED = re.compile(r"""[ \t]*(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[^\S\n]*(?:\#[^\n]*)?(?=\n|\Z)""", re.DOTALL)
_PLAIN = re.compile(r"""(?![ \t]*["'])[^\n]*""")
_ESCAPED = re.compile(r"\\(.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; the last one of a name counts.

    Raises:
        ValueError: A line is none of that; the sentence names its number, and never its content, which may be
        a secret.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = text.find("\n", at) % (len(text) + 1)  # where there is none, the text's end
        if (line := text[at:end].strip()) and not line.startswith("#"):
            name = _NAME.match(text, at, end)
            start = end if name is None else name.end()
            value = _QUOTED.match(text, start) or _PLAIN.match(text, start)
            if name is None or value is None or "\0" in value[0]:
                raise ValueError(f"line {text.count(chr(10), 0, at) + 1} is not NAME=VALUE")
            found[name[1]] = _meant(value)
            end = value.end()
        at = end + 1
    return found


def _meant(value: re.Match[str]) -> str:
    if value.re is _PLAIN:
        return re.split(r"[ \t]#", value[0], maxsplit=1)[0].strip()
    if value[1] is not None:
        return value[1]
    # A backslash before any other letter stays, as in a shell.
    return _ESCAPED.sub(lambda one: _LETTERS.get(one[1], one[0]), value[2])


PROCFILE = "Procfile"
ENV_FILE = ".env"
FIRST_PORT, PORT_STEP = 5000, 100
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,62})[ \t]*:(.*)", re.DOTALL)


def parse_procfile(
    text: str,
    *,
    folder: str,
    file: str = PROCFILE,
    variables: Mapping[str, str] | None = None,
    port: str = "",
) -> dict[str, ServiceRequest]:
    """Return the services that a Procfile declares, in its order.

    Args:
        text: Its content.
        folder: Where it lies, absolute; the processes work there.
        file: What errors call it.
        variables: What a file `.env` beside it says; None where there is none.
        port: The caller's own PORT.

    Raises:
        ConfigInvalid: A line is neither blank, nor a comment, nor `name: command`; or a name stands there
        twice.
    """
    ports = ((variables or {}).get("PORT", ""), port)
    first_port = next((int(one) for one in ports if _PORT.fullmatch(one)), FIRST_PORT)
    services: dict[str, ServiceRequest] = {}
    # Not `splitlines`, for which a form feed inside of a command would end the line.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if line == "services:":
            raise _refusal(
                f"{file} is no Procfile: it is a file of Docker Compose, or of another reader of YAML.",
                hint="A Procfile has a line NAME: COMMAND for each process (docs/services.md).",
            )
        if found is not None and not found[2].strip():
            raise _refusal(f"{file}, line {number}: {found[1]!r} has no command.")
        if found is None or "\0" in line:
            raise _refusal(
                f"{file}, line {number}: a line is NAME: COMMAND, as `web: ./server --port $PORT`."
            )
        name, command = found[1], found[2].strip()
        if not is_name(name):
            raise _refusal(
                f"{file}, line {number}: {name!r} looks like an id, and could not be told from one: call "
                f"it {unlike_an_id(name)!r}."
            )
        if name in services:
            raise _refusal(f"{file}, line {number}: there is a {name!r} already.")
        services[name] = ServiceRequest(
            command=command,
            folder=folder,
            environment={"PORT": str(first_port + PORT_STEP * len(services))},
            env_file=(f"{folder.rstrip('/')}/{ENV_FILE}",) if variables is not None else (),
        )
    if not services:
        raise _refusal(f"{file} declares no process.")
    if len(services) > MAX_SERVICES:
        raise _refusal(f"{file} declares {len(services)} processes; {MAX_SERVICES} are the most.")
    return services
