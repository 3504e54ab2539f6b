"""What an option is: `Option`, a row of the table from which flags, help texts and documentation are made.

`option` declares one: it returns a dataclass field whose metadata carries everything known about it. The rows
themselves stand in `settings` and the modules beside it.

Text to values: one small parser for each kind of option, and for servers' addresses (`websocket_url`). Pure.

Owns the spelling of sizes, times, ports, hosts and addresses. A parser raises ValueError with a sentence
about the mistake; `config.resolution` adds the option's name and the source of the text.
"""

import functools
import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from outlive.core.command import MIN_CPUS, Profile
from outlive.core.durations import parse_duration
from outlive.core.values import dataclass, field
from outlive.operations.tool_sets import TOOL_SETS

# The words of options with a closed set of values; help texts show them in this order.
_VERDICTS = ("allow", "ask", "deny")

LOG_LEVELS = ("debug", "info", "warning", "error")
HIDING = ("off", "secrets", "all")  # each hides more than the one before it
_LOG_FORMS = ("auto", "console", "json")
# Every way to write this machine's own address means both families: 127.0.0.1 and ::1.
_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1", "[::1]": "::1"}
_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})
_MAX_PORT = 65535
_OFF = "off"


def parse_folder(text: str) -> str:
    """Return the path as written; `config.resolution` makes it absolute."""
    if "\0" in text:
        raise ValueError("a path cannot hold a NUL character")
    return text


def parse_host(text: str) -> str:
    """Return an address to listen on; "127.0.0.1" stands for both families' loopback."""
    word = text.strip().lower()
    if (host := _LOOPBACK.get(word)) is not None:
        return host
    # OUTLIVE_HOST names the server to connect to for other verbs: a URL there is a frequent mistake.
    if "://" in word:
        raise ValueError("that names another server, for `outlive --host URL`: unset it to start one here")
    import ipaddress  # noqa: PLC0415 -- start-up time: few listen beyond loopback

    try:
        return str(ipaddress.ip_address(word.removeprefix("[").removesuffix("]")))
    except ValueError:
        raise ValueError(
            "an address of this machine is needed: 127.0.0.1, ::1, localhost, or another IP address "
            "(0.0.0.0 for all)"
        ) from None


def parse_port(text: str) -> int | None:
    """Return a TCP port, 0 for any free one, None for "off"."""
    word = text.strip().lower()
    if word == "off":
        return None
    if not (word.isascii() and word.isdigit()) or int(word) > _MAX_PORT:
        raise ValueError('a port is a number from 1 to 65535, 0 for any free one, or "off"')
    return int(word)


def parse_count(text: str) -> int:
    """Return a whole number, 1 or more."""
    word = text.strip()
    if not (word.isascii() and word.isdigit()) or int(word) < 1:
        raise ValueError("a whole number of 1 or more is needed")
    return int(word)


def parse_size(text: str) -> int:
    """Return bytes from "8192", "64K", "16 MiB" or "2G" (powers of 1024)."""
    number, unit = _split(text)
    unit = unit.removesuffix("ib") if unit.endswith("ib") else unit.removesuffix("b")
    size = round(number * _SIZE_UNITS[unit]) if number is not None and unit in _SIZE_UNITS else 0
    if size < 1:
        raise ValueError("a size is a number of bytes, or one with K, M, G or T behind it (powers of 1024)")
    return size


def parse_seconds(text: str) -> float:
    """Return seconds from "10", "0.5", "500ms", "2m", "1h" or "7d"."""
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError("a time is a number of seconds, or one with ms, s, m, h or d behind it") from None


def parse_wait(text: str) -> float:
    """Return seconds, more than none."""
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise ValueError("a time of more than 0 s is needed")
    return seconds


def parse_addresses(text: str) -> tuple[str, ...]:
    """Return WebSocket addresses between commas."""
    addresses = parse_words(text)
    for address in addresses:
        scheme, separator, rest = address.partition("://")
        host = rest.partition("/")[0].partition("?")[0]
        if scheme.lower() not in {"ws", "wss"} or not separator or not host or "@" in host or "#" in rest:
            shown = address.partition("?")[0][:60]  # without the query, which may hold a token
            raise ValueError(f"{shown!r} is no address of a WebSocket: ws://host:port or wss://host:port")
    return addresses


def parse_bound(text: str) -> int | None:
    """Return a whole number of 1 or more, None for "off"."""
    return None if text.strip().lower() == _OFF else parse_count(text)


def parse_size_bound(text: str) -> int | None:
    """Return bytes, None for "off"."""
    return None if text.strip().lower() == _OFF else parse_size(text)


def parse_seconds_bound(text: str) -> float | None:
    """Return seconds, at least one, None for "off"."""
    if text.strip().lower() == _OFF:
        return None
    seconds = parse_seconds(text)
    if seconds < 1:
        raise ValueError("one second or more is needed")
    return seconds


def parse_cpus(text: str) -> float:
    """Return a number of processors, 0.01 or more."""
    number, unit = _split(text)
    if number is None or unit or number < MIN_CPUS:
        raise ValueError(f"a number of processors is {MIN_CPUS} or more, like 2 or 0.5")
    return number


def parse_cpus_bound(text: str) -> float | None:
    """Return a number of processors, None for "off"."""
    return None if text.strip().lower() == _OFF else parse_cpus(text)


def parse_cpu_bound(text: str) -> int | None:
    """Return whole seconds, as setrlimit(2) takes processor time, None for "off"."""
    seconds = parse_seconds_bound(text)
    return None if seconds is None else round(seconds)


def _whole_seconds(text: str) -> int:
    if (seconds := parse_seconds_bound(text)) is None:
        raise ValueError("what is not to be bounded is left out")
    return math.ceil(seconds)


# Limits of a start, of the command line and of a project's file. Each takes a text, returns seconds, bytes or
# a count, and raises ValueError with a sentence.
LIMIT_READERS: Mapping[str, Callable[[str], float]] = MappingProxyType(
    {
        "cpu": _whole_seconds,
        "cpus": parse_cpus,
        "memory": parse_size,
        "files": parse_count,
        "processes": parse_count,
    }
)


def parse_profile_name(text: str) -> str:
    """Return the name of a sandbox profile."""
    word = text.strip().lower()
    if word not in set(Profile):
        raise ValueError(f"one of {', '.join(Profile)} is needed")
    return word


def parse_words(text: str) -> tuple[str, ...]:
    """Return the words between commas, without the blanks around them."""
    return tuple(word for piece in text.split(",") if (word := piece.strip()))


def parse_lines(text: str) -> tuple[str, ...]:
    """Return the lines, without empty ones; blanks within them count."""
    return tuple(line for line in text.split("\n") if line.strip())


def parse_verdict(text: str) -> str:
    """Return the verdict about a command: allow, ask or deny."""
    word = text.strip().lower()
    if word not in _VERDICTS:
        raise ValueError(f"one of {', '.join(_VERDICTS)} is needed")
    return word


_DEFAULT_PORTS = {"http": 80, "https": 443}  # RFC 9110, sections 4.2.1 and 4.2.2
# A name, with at most one `*.` before it, or an IPv4 or [IPv6] address; then, optionally, a colon and a port.
_NAME = re.compile(
    r"(?:(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


def parse_names(text: str) -> tuple[str, ...]:
    """Return host names between commas, in lower case, each with a port or without."""
    names = tuple(word.lower() for word in parse_words(text))
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or not 0 < int(match["port"] or 1) <= _MAX_PORT:
            raise ValueError(
                f"{name[:60]!r} is no host name, nor one with a port: HOST or HOST:PORT, IPv6 in brackets"
            )
    return names


def parse_origins(text: str) -> tuple[str, ...]:
    """Return origins between commas as browsers send them: in lower case, without the scheme's own port."""
    found = []
    for word in parse_words(text):
        scheme, separator, authority = word.lower().partition("://")
        match = _NAME.fullmatch(authority)
        if not separator or not scheme or match is None or "*" in authority:
            raise ValueError(
                f"{word[:60]!r} is no origin: scheme://host or scheme://host:port, without a path"
            )
        # Browsers leave the scheme's own port out of an Origin (RFC 6454, section 6.1): with it the words
        # would never match.
        default = _DEFAULT_PORTS.get(scheme)
        found.append(f"{scheme}://{authority.removesuffix(f':{default}') if default else authority}")
    return tuple(found)


def parse_switch(text: str) -> bool:
    """Return the value of a switch in the environment or a file."""
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise ValueError("a switch is 1 or 0, true or false, yes or no, on or off")
    return word in _YES


def parse_sudo(text: str) -> bool | None:
    """Return whether tools may use sudo; None for "lean", where it depends on the tool and its profile."""
    return None if text.strip().lower() == "lean" else parse_switch(text)


def parse_level(text: str) -> str:
    """Return the name of a log level."""
    word = text.strip().lower()
    if word not in LOG_LEVELS:
        raise ValueError(f"one of {', '.join(LOG_LEVELS)} is needed")
    return word


def parse_log_form(text: str) -> str:
    """Return the name of a form of log lines."""
    word = text.strip().lower()
    if word not in _LOG_FORMS:
        raise ValueError(f"one of {', '.join(_LOG_FORMS)} is needed")
    return word


def parse_text(text: str) -> str:
    """Return the text without the blanks around it."""
    return text.strip()


def parse_hiding(text: str) -> str:
    """Return the name of what is hidden."""
    word = text.strip().lower()
    if word not in HIDING:
        raise ValueError("one of all, secrets, off is needed")
    return word


def parse_tool_set(text: str) -> str:
    """Return the name of a set of tools."""
    word = text.strip().lower()
    if word not in TOOL_SETS:
        raise ValueError(f"one of {', '.join(TOOL_SETS)} is needed")
    return word


def _split(text: str) -> tuple[float | None, str]:
    """Return number and unit of "16 MiB"; None where there is no finite number."""
    word = text.strip().lower()
    digits = word.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = word[len(digits) :].strip()
    if not digits or not digits.isascii() or digits.strip("0123456789."):
        return None, unit
    try:
        number = float(digits)
    except ValueError:
        return None, unit
    return (number if math.isfinite(number) else None), unit


# A person may name a server by its web address or by the WebSocket's own: both are the same server.
JSONRPC_PATH = "/ws/mcp"
JSONRPC_PORT = 8003
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def is_private(url: str) -> bool:
    """Return whether nothing of what goes to a WebSocket address is read on the way: over TLS, or within this
    machine.
    """
    return urlsplit(url).scheme == "wss" or is_loopback(url)


def is_loopback(url: str) -> bool:
    """Return whether an address means another machine to each that uses it: its own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def websocket_url(text: str) -> str:
    """Return a server's JSON-RPC address, from "https://build.example:8003", "wss://…/ws/mcp" or
    "build.example:8003".

    Raises:
        ValueError: It is no such address, or has a user or a password in it.
    """
    word = text.strip()
    if "://" not in word:
        word = f"http://{word}"
    parts = urlsplit(word)
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname:
        raise ValueError("an address like https://build.example:8003 or ws://127.0.0.1:8003/ws/mcp is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address holds no user and no password: a token belongs into a file")
    if parts.port == 0 or parts.query or parts.fragment:
        raise ValueError("an address ends with its port or its path")
    path = parts.path if parts.path not in ("", "/") else JSONRPC_PATH
    return f"{scheme}://{parts.netloc}{path}"


# The direction in which a project's file may change a value: a smaller number, fewer or more words, a switch
# to one side, a smaller set of tools, a stricter verdict, a stronger profile, more redaction.
Tightening = Literal["lower", "subset", "superset", "on", "off", "narrower", "stricter", "stronger", "hides"]
Mark = Literal["", "secret file", "places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting as data; `config.settings.all_options` makes the only instances.

    Args:
        name: Attribute of `Settings`; its unit is part of the name.
        kind: The kind of value in one word, as help texts show it.
        parse: Text to value; raises ValueError with a sentence.
        default: The value without flag and environment, as people write it.
        unit: Unit of the value, "" where there is none.
        sentence: What the option does.
        env: Names in the environment, the first that is set wins.
        flag: The flag of `outlive serve`.
        example: A value to copy.
        project: In which direction a project's configuration file may change it; None: not at all.
        shown: Of a port: what `--verbose` says of it (see `port`).
        if_taken: Of a port: a sentence for those who find it taken.
        mark: "secret file": no command of a caller may read the file; "places": commands may run there.
    """

    name: str
    kind: str
    parse: Callable[[str], object]
    default: str
    unit: str
    sentence: str
    env: tuple[str, ...]
    flag: str
    example: str
    project: Tightening | None = None
    shown: str = ""
    if_taken: str = ""
    mark: Mark = ""

    @property
    def key(self) -> str:
        """Its name in a configuration file: the flag's words with underscores."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def separator(self) -> str:
        """The character between the words of a list: a line end for patterns, which may hold commas."""
        return "\n" if self.kind == "patterns" else ","

    @property
    def is_secret(self) -> bool:
        """Whether the value is never shown."""
        return self.kind in {"key", "addresses", "url"}  # an address may have a token in it

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.kind == "switch"


def option(
    kind: str,
    parse: Callable[[str], object],
    default: str,
    sentence: str,
    *,
    flag: str,
    env: tuple[str, ...] = (),
    unit: str = "",
    example: str = "",
    project: Tightening | None = None,
    mark: Mark = "",
) -> Any:  # noqa: ANN401 -- a dataclass field stands where the value will be; `field` itself is typed like this
    """Declare one option; its first environment name is OUTLIVE_ and the flag, those in `env` follow."""
    ours = "OUTLIVE_" + flag.removeprefix("--").replace("-", "_").upper()
    row = {
        "kind": kind,
        "parse": parse,
        "default": default,
        "sentence": sentence,
        "unit": unit,
        "flag": flag,
        "env": (ours, *env),
        "example": example or default,
        "project": project,
        "mark": mark,
    }
    return field(default_factory=functools.partial(parse, default), metadata=row)


def port(
    default: str, door: str, *, flag: str, shown: str, env: tuple[str, ...] = (), if_taken: str = ""
) -> Any:  # noqa: ANN401 -- as `option`
    """Declare the port of a frontend, which the server opens under the flag's first word.

    Args:
        default: The port.
        door: What is served there.
        flag: `--NAME-port`.
        shown: What `--verbose` says of it; {s} is "s" over TLS, {address} HOST:PORT.
        env: As in `option`.
        if_taken: A sentence for those who find the port taken.
    """
    sentence = f"Port of {door}; 0 takes any free one, off none."
    row = option("port", parse_port, default, sentence, flag=flag, env=env)
    return field(
        default_factory=row.default_factory, metadata={**row.metadata, "shown": shown, "if_taken": if_taken}
    )
