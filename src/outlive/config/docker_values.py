"""Text to values for what containers are made of; as `values`, each with a sentence that says what is wrong."""

import re

from outlive.config.values import parse_switch
from outlive.core.errors import InvalidRequest
from outlive.core.location import DOCKER, LOCAL, parse_isolation

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")  # of a daemon on another machine
_USER = re.compile(r"[0-9]{1,10}(:[0-9]{1,10})?")


def parse_backend(text: str) -> str:
    """Return the name of a backend; a switch that is on means docker, one that is off local (promise S4.9.docker)."""
    word = text.strip()
    try:
        return DOCKER if parse_switch(word) else LOCAL
    except ValueError:
        pass
    if word.lower() in {LOCAL, DOCKER}:
        return word.lower()
    if not _NAME.fullmatch(word):
        raise ValueError("local, docker or the name of a node is needed")
    return word


def parse_isolation_name(text: str) -> str:
    """Return who shares a container."""
    try:
        return parse_isolation(text.strip().lower())
    except InvalidRequest as error:
        raise ValueError("session or strict is needed") from error


def parse_network(text: str) -> str:
    """Return the name of a network; the machine's own is none, for it leads to what listens on loopback."""
    word = text.strip()
    if word == "host" or not _NAME.fullmatch(word):
        raise ValueError('"none" or the name of a Docker network is needed (not the host\'s own)')
    return word


def parse_transport(text: str) -> str:
    """Return how commands in containers are reached."""
    word = text.strip().lower()
    if word not in {"sockets", "stream", "auto"}:
        raise ValueError("sockets, stream or auto is needed")
    return word


def parse_user(text: str) -> str:
    """Return "UID:GID", "UID", or "" for the server's own."""
    word = text.strip()
    if word and not _USER.fullmatch(word):
        raise ValueError("a user is given by number: UID or UID:GID")
    return word


def parse_mounts(text: str) -> tuple[str, ...]:
    """Return mounts between commas, each "HOST:INSIDE" or "HOST:INSIDE:ro"."""
    mounts = tuple(word for piece in text.split(",") if (word := piece.strip()))
    for mount in mounts:
        words = mount.split(":")
        is_whole = len(words) in {2, 3} and words[2:] in ([], ["ro"], ["rw"])
        is_source = words[0].startswith("/") or _VOLUME.fullmatch(words[0])
        if not is_whole or not is_source or not words[1].startswith("/"):
            raise ValueError(f"{mount[:60]!r} is no mount: HOST:INSIDE or HOST:INSIDE:ro, both absolute")
    return mounts
