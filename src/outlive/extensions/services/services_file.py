"""From a project's file to its services: `parse_services`. Pure: the caller reads the file.

The members are those of `declaration`; here stands only what a file says differently:
paths beside the file, times as people write them, one word where a request has a list. Errors name the line,
the service and the member.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from outlive.config.options import LIMIT_READERS, parse_seconds
from outlive.core.documents import BadDocument, decode_toml
from outlive.core.errors import ConfigInvalid, InvalidRequest
from outlive.extensions.services.declaration import (
    Backoff,
    ReadyWhen,
    ServiceRequest,
    check_services,
    did_you_mean,
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
