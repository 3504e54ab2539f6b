"""From JSON, or members that were read already, to a checked request; one sentence for what is wrong. Pure.

Also the kinds of values that requests are made of (`Seconds`, `Cells`, `Tags` and others), each with its
bounds, and what every frontend that lists takes (`ListFilter`). Pure.

A bound stands here once. Every frontend checks it, and every published schema shows it.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from outlive.core.command import MIN_CPUS, UMASK_PATTERN
from outlive.core.errors import InvalidRequest
from outlive.core.identity import (
    NAME_PATTERN,
    RANDOM_BYTES,
    SHORT_ID_PATTERN,
    new_process_id,
    number_of,
)
from outlive.core.process import MAX_TAG_NAME, MAX_TAG_VALUE, MAX_TAGS

_Request = TypeVar("_Request", bound=msgspec.Struct)


def decode_request(raw: bytes, shape: type[_Request]) -> _Request:
    """Return the request that a JSON text holds.

    Raises:
        InvalidRequest: A member is missing, has the wrong type or an impossible value; the message names it.
    """
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise _refusal(error, msgspec.json.decode(raw), shape) from None
    except (msgspec.DecodeError, RecursionError) as error:
        from outlive.operations.refusals import broken_json  # noqa: PLC0415 -- as below

        raise InvalidRequest("invalid_params", f"{broken_json(error)}.") from None


def convert_request(members: object, shape: type[_Request], *, is_text: bool = False) -> _Request:
    """Return the request that decoded JSON makes.

    Or texts, as an address holds them: "5" is a number, "true" is true.

    Raises:
        InvalidRequest: As `decode_request`.
    """
    try:
        return msgspec.convert(members, shape, strict=not is_text)
    except (msgspec.ValidationError, ValueError) as error:
        raise _refusal(error, members, shape) from None


def _refusal(error: Exception, members: object, shape: type[msgspec.Struct]) -> InvalidRequest:
    from outlive.operations.refusals import refusal_of  # noqa: PLC0415 -- memory: only a mistake needs it

    return refusal_of(error, members, shape)


# Ten years, in seconds: beyond that, timers overflow. No caller means it.
MAX_S = 10 * 365 * 86400

Seconds = Annotated[float, Meta(ge=0, le=MAX_S)]
Timeout = Annotated[float, Meta(gt=0, le=MAX_S)]
# A timeout of the tools that promise whole seconds (promise S1.2).
WholeSeconds = Annotated[int, Meta(ge=1, le=MAX_S)]
# How long a call waits. A proxy on the way gives up long before an hour.
WaitSeconds = Annotated[float, Meta(ge=0, le=3600)]

# A terminal's rows or columns: struct winsize holds 16 bits (ioctl_tty(2)).
Cells = Annotated[int, Meta(ge=1, le=65535)]
# A size in bytes. The keeper's records hold 63 bits.
Bytes = Annotated[int, Meta(ge=1, le=2**62)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
# A resource limit (setrlimit(2)) is at most this where a C long has 32 bits.
LimitCount = Annotated[int, Meta(ge=1, le=2**31)]
Cpus = Annotated[float, Meta(ge=MIN_CPUS, le=2**20)]
# Of processors or GPUs: none, or a number of which thousandths count.
Amount = Annotated[float, Meta(ge=0, le=2**20)]
Niceness = Annotated[int, Meta(ge=-20, le=19)]  # setpriority(2)
# A moment as text, read by `moment_of`: in an address a plus sign that is not encoded arrives as a space.
MomentText = Annotated[
    str,
    Meta(max_length=40, extra_json_schema={"format": "date-time"}, examples=["2026-01-31T12:00:00Z"]),
]
# Three octal digits, with or without a leading zero: "022".
Umask = Annotated[str, Meta(pattern=UMASK_PATTERN)]

Text = Annotated[str, Meta(min_length=1)]
Words = Annotated[tuple[str, ...], Meta(min_length=1)]
TagName = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_NAME)]
TagValue = Annotated[str, Meta(max_length=MAX_TAG_VALUE)]
Tags = Annotated[dict[TagName, TagValue], Meta(max_length=MAX_TAGS)]
TagChanges = Annotated[dict[TagName, TagValue | None], Meta(max_length=MAX_TAGS)]
Group = Annotated[str, Meta(min_length=1, max_length=128)]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
ProjectFolder = Annotated[
    str, Meta(pattern="^/", max_length=4096)
]  # absolute; a longer path has no name (PATH_MAX)
ShortId = Annotated[str, Meta(pattern=SHORT_ID_PATTERN)]
# Published, and checked by the engine, whose refusal says more than that a pattern does not match
# (`core.process.check_name`).
ProcessName = Annotated[str, Meta(extra_json_schema={"pattern": NAME_PATTERN})]
# Which process is meant, by one of its names; the longest is a name's 63 characters.
ProcessWord = Annotated[str, Meta(min_length=1, max_length=256)]
# "local", "docker", or a node's name, which is one label of a host's name (RFC 1035, section 2.3.4).
BackendName = Annotated[str, Meta(min_length=1, max_length=63)]
# The members of `core.command.Profile`: as text, so that schemas list the words where they are used.
ProfileName = Literal["open", "guarded", "workspace", "offline", "sealed"]
GrantText = Annotated[str, Meta(max_length=40)]
# A workspace, shown in a line of words. Not "\\Z" at its end, which JSON Schema's dialect lacks: "$" alone
# takes a newline.
WorkspaceName = Annotated[str, Meta(pattern=r"^[\w.-]{1,100}(?!\n)$")]


class ProjectMembers(TypedDict):
    """These conditions as members of a `ProcessFilter`; null is no condition."""

    project: str | None
    key: str | None
    name: str | None
    number: int | None


class ProjectFilter(msgspec.Struct, kw_only=True, frozen=True):
    """Processes by the project that they belong to, and by their names in it. Null is no condition."""

    project: Annotated[
        ProjectFolder | None, Meta(description="Only those that were started for this folder.")
    ] = None
    key: Annotated[Key | None, Meta(description="Only those that were started with this key.")] = None
    short_id: Annotated[
        ShortId | None, Meta(description="Only those with this short id: p7; each project has one.")
    ] = None

    name: Annotated[ProcessWord | None, Meta(description="Only those of this name.")] = None

    def members(self) -> ProjectMembers:
        """Return them as members of a `ProcessFilter`."""
        number = None if self.short_id is None else number_of(self.short_id)
        return {"project": self.project, "key": self.key, "name": self.name, "number": number}


class ListMembers(ProjectMembers):
    """These conditions as members of a `ProcessFilter`; null is no condition."""

    since: str | None
    until: str | None
    alive_since: datetime | None


class ListFilter(ProjectFilter, kw_only=True, frozen=True):
    """Processes by project, names and time.

    `until` and `alive_since` together select what lived in a span of time.
    """

    since: Annotated[MomentText | None, Meta(description="Only started at this time or later; RFC 3339.")] = (
        None
    )
    until: Annotated[MomentText | None, Meta(description="Only started before this time; RFC 3339.")] = None
    alive_since: Annotated[
        MomentText | None, Meta(description="Not what had ended before this time; RFC 3339.")
    ] = None
    same_as: Annotated[
        ProcessWord | None,
        Meta(
            description="Only runs of the same command in the same folder as this process, itself included."
        ),
    ] = None

    def members(self) -> ListMembers:
        """Return them as members of a `ProcessFilter`, but for `same_as`: which process that is the frontend
        finds.

        Raises:
            InvalidRequest: A time is none.
        """
        return {
            **super().members(),
            "since": None if self.since is None else _first_id(moment_ns("since", self.since)),
            "until": None if self.until is None else _first_id(moment_ns("until", self.until)),
            "alive_since": None if self.alive_since is None else moment_of("alive_since", self.alive_since),
        }


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(name: str, text: str) -> datetime:
    """Return the moment that a text of RFC 3339 means, with its zone; `name` is the parameter, for the
    refusal.

    Raises:
        InvalidRequest: It means none.
    """
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
        moment.astimezone(UTC)  # at both ends of the calendar there is no such moment
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None or "T" not in text.upper():
        raise InvalidRequest("invalid_params", f"{name}: {text!r} is no time as in 2026-01-31T12:00:00Z.")
    return moment


def moment_ns(name: str, text: str) -> int:
    """Return the same in nanoseconds since 1970; before that it is 0.

    Raises:
        InvalidRequest: As `moment_of`.
    """
    return max(0, (moment_of(name, text) - _EPOCH) // timedelta(microseconds=1)) * 1000


def _first_id(begin_ns: int) -> str:
    """Return the smallest id that a process started at that time could have."""
    return new_process_id(begin_ns, bytes(RANDOM_BYTES))
