"""What operators ask, and what is answered: `statistics` of a span of time, the audit log, settings, checks.

Pure.

The same at every door. Times are RFC 3339 with a zone; a span is bounded on both sides, so that no question
is about everything.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.errors import InvalidRequest
from outlive.core.values import dataclass
from outlive.operations.answers import AnswerMembers, Moment
from outlive.operations.requests import MomentText, ProjectFolder, moment_of

MOST_BUCKETS = 1000  # as wide as a screen: a chart shows no more
_USUAL_BUCKETS = 48  # half an hour each, of a day
_SHORTEST_S = 60  # a minute: below that a chart of starts is noise
_USUAL_SPAN = timedelta(days=1)
_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From one aware moment to a later one, in `count` buckets of `bucket_s` seconds.

    The last may reach beyond the end.
    """

    since: datetime
    until: datetime
    bucket_s: int

    @property
    def bucket(self) -> timedelta:
        """How long one is."""
        return timedelta(seconds=self.bucket_s)

    @property
    def count(self) -> int:
        """How many there are."""
        return -((self.since - self.until) // self.bucket)


class StatisticsRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Which span of time, in how large pieces, and of which project."""

    since: Annotated[
        MomentText | None, Meta(description="Where the span begins; a day before its end, if left out.")
    ] = None
    until: Annotated[MomentText | None, Meta(description="Where it ends; now, if left out.")] = None
    bucket_s: Annotated[
        Annotated[int, Meta(ge=_SHORTEST_S, le=366 * 86400)] | None,
        Meta(description="Seconds of one bucket; 48 of them, if left out. A span has at most 1000."),
    ] = None
    project: Annotated[
        ProjectFolder | None, Meta(description="Only processes that were started for this folder.")
    ] = None

    counts: Annotated[
        bool, Meta(description="False: count nothing, which is cheap, and say only when no server ran.")
    ] = True

    def span(self, now: datetime) -> Span:
        """Return the span that is meant.

        Raises:
            InvalidRequest: A time is none, the end is not behind the beginning, or there are too many
            buckets.
        """
        until = now if self.until is None else moment_of("until", self.until)
        if self.since is not None:
            since = moment_of("since", self.since)
        elif until - _FIRST < _USUAL_SPAN:  # the calendar's first day
            raise InvalidRequest("invalid_params", "until: nothing lies before it.")
        else:
            since = until - _USUAL_SPAN
        length_s = (until - since).total_seconds()
        if length_s <= 0:
            raise InvalidRequest("invalid_params", "until: it has to be later than since.")
        # Whole minutes: a bucket of 1799 s would end at no time that a person knows.
        usual_s = max(_SHORTEST_S, round(length_s / _USUAL_BUCKETS / 60) * 60)
        span = Span(since=since, until=until, bucket_s=self.bucket_s or usual_s)
        if span.count > MOST_BUCKETS:
            text = f"bucket_s: {span.count} buckets of {span.bucket_s} s are more than {MOST_BUCKETS}."
            raise InvalidRequest("invalid_params", text)
        return span


class Counts(AnswerMembers, kw_only=True, frozen=True):
    """What was counted of some processes.

    What ended is done (exit code 0), failed or stopped, each in one of the three.
    """

    started: int = 0
    ended: int = 0
    failed: Annotated[
        int,
        Meta(description="Of what ended: any other exit code, a signal, a timeout, a failed start, lost."),
    ] = 0
    stopped: Annotated[
        int, Meta(description="Of what ended: a caller or the server's end has stopped it.")
    ] = 0
    run_s: Annotated[
        float, Meta(description="Seconds that they ran, added up: 7200 in an hour are two at a time.")
    ] = 0.0
    output_bytes: Annotated[int, Meta(description="What they wrote that have ended.")] = 0


class StatisticsBucket(Counts, kw_only=True, frozen=True):
    """One piece of the span."""

    at: Annotated[Moment, Meta(description="When it begins.")]


class ProjectCounts(Counts, kw_only=True, frozen=True):
    """One project in the whole span."""

    project: Annotated[str | None, Meta(description="Its folder; null for what belongs to none.")]


class Outage(AnswerMembers, kw_only=True, frozen=True):
    """A time in which no server ran; what ran, ran on."""

    from_: Moment = msgspec.field(name="from")
    to: Moment
    exact: Annotated[
        bool,
        Meta(description="False: it was killed, at the latest at `to`; `from` is the last that it recorded."),
    ]


class StatisticsAnswer(AnswerMembers, kw_only=True, frozen=True):
    """What the caller's processes did in a span of time."""

    since: Moment
    until: Moment
    bucket_s: int
    buckets: Annotated[list[StatisticsBucket], Meta(description="Without holes, the oldest first.")]
    projects: Annotated[list[ProjectCounts], Meta(description="Those with the most starts first.")]
    complete: Annotated[
        bool,
        Meta(description="True: all that are kept were counted. Servers before counted 50,000 at most."),
    ]
    away: Annotated[
        list[Outage], Meta(description="The oldest first; known where the server keeps an audit log.")
    ]


class AuditRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Which entries of the audit log, the newest first."""

    process_id: Annotated[
        Annotated[str, Meta(pattern=r"^[0-7][0-9a-hjkmnp-tv-z]{25}(?!\n)$")] | None,
        Meta(description="Only about the process with this permanent id; it may be removed by now."),
    ] = None
    since: Annotated[MomentText | None, Meta(description="Only from this time on; RFC 3339.")] = None
    until: Annotated[MomentText | None, Meta(description="Only before this time; RFC 3339.")] = None
    before: Annotated[
        Annotated[int, Meta(ge=1, le=2**62)] | None,
        Meta(description="Only older ones than this `n`: the last one of the page before."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


# Whatever an entry may hold, as JSON has it.
_EntryValue = str | int | float | list[str] | None


class AuditPage(AnswerMembers, kw_only=True, frozen=True):
    """A page of the audit log."""

    entries: Annotated[
        list[dict[str, _EntryValue]],
        Meta(
            description=(
                "The newest first, with the members that `docs/audit.md` describes but for `prev` and `mac`."
            )
        ),
    ]
    more: Annotated[bool, Meta(description="Older ones follow.")]


class SettingView(AnswerMembers, kw_only=True, frozen=True):
    """One setting of the server, as it was started."""

    key: Annotated[str, Meta(description="As a configuration file has it.")]
    value: Annotated[str, Meta(description="As text; `(hidden)` for a secret that is set.")]
    source: Literal["flag", "environment", "operator", "project", "user", "system", "default"]
    place: Annotated[str, Meta(description="The flag, the variable, or the file with its key.")]
    help: str


class SettingsAnswer(AnswerMembers, kw_only=True, frozen=True):
    """The settings in effect."""

    settings: list[SettingView]


class CheckView(AnswerMembers, kw_only=True, frozen=True):
    """One thing that outlive stands on, tried out."""

    name: str
    ok: bool
    importance: Literal["required", "optional", "fact"]
    detail: str
    consequence: Annotated[str, Meta(description="What happens without it.")]
    cure: Annotated[str, Meta(description="What to install or to set.")]


class ChecksAnswer(AnswerMembers, kw_only=True, frozen=True):
    """What `outlive doctor` finds where the server runs, at most ten seconds old."""

    version: str
    state_dir: str
    ok: Annotated[bool, Meta(description="Nothing is missing that outlive cannot do without.")]
    checks: list[CheckView]


class SettingsRequest(msgspec.Struct, kw_only=True, frozen=True):
    """`settings`: nothing to say."""


class ChecksRequest(msgspec.Struct, kw_only=True, frozen=True):
    """`checks`: nothing to say."""


class GroupsRequest(msgspec.Struct, kw_only=True, frozen=True):
    """`groups`: nothing to say."""


class GroupView(AnswerMembers, kw_only=True, frozen=True):
    """One group of the caller's."""

    group: str
    limit: Annotated[int | None, Meta(description="How many of it run at once; null: any number.")]
    running: int
    waiting: Annotated[
        list[str], Meta(description="The process ids of what waits for its turn, the next first.")
    ]


class GroupsAnswer(AnswerMembers, kw_only=True, frozen=True):
    """The caller's groups that run something, wait or have a limit, by name."""

    groups: list[GroupView]


ReportRequest = StatisticsRequest | GroupsRequest | AuditRequest | SettingsRequest | ChecksRequest
ReportAnswer = StatisticsAnswer | GroupsAnswer | AuditPage | SettingsAnswer | ChecksAnswer
# By the operation's name: what it takes, and what it gives. Every frontend makes its own of these.
REPORTS: Mapping[str, tuple[type[ReportRequest], type[ReportAnswer]]] = MappingProxyType(
    {
        "statistics": (StatisticsRequest, StatisticsAnswer),
        "groups": (GroupsRequest, GroupsAnswer),
        "audit": (AuditRequest, AuditPage),
        "settings": (SettingsRequest, SettingsAnswer),
        "checks": (ChecksRequest, ChecksAnswer),
    }
)
