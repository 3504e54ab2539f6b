"""What a search through the output of all processes takes and answers, at every door. Pure."""

from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.operations.answers import AnswerMembers, Redacted, StreamName
from outlive.operations.requests import Group, ProcessWord, ProjectFolder

# It is written by hand: more is a mistake, such as a whole log pasted into it.
MAX_TEXT_CHARACTERS = 1000
MAX_MATCHES = 1000  # in one answer: some megabytes at most
MAX_CONTEXT = 100
DEFAULT_MATCHES = 100


class SearchRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What is looked for, and in which processes."""

    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT_CHARACTERS,
            description="What the lines contain.",
            examples=["connection refused"],
        ),
    ]
    regex: Annotated[bool, Meta(description="`text` is a regular expression, in RE2's syntax.")] = False
    ignore_case: Annotated[bool, Meta(description="Letters in either case.")] = False
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXT, description="Lines around each match.")] = 0
    process_id: Annotated[
        ProcessWord | None, Meta(description="Only in this process, by one of its names (`get`).")
    ] = None
    project: Annotated[ProjectFolder | None, Meta(description="Only in processes of this folder.")] = None
    group: Annotated[Group | None, Meta(description="Only in processes of this group.")] = None
    each: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="At most so many lines of each process.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES, description="At most so many lines.")] = DEFAULT_MATCHES
    cursor: Annotated[
        Annotated[str, Meta(max_length=80)] | None,
        Meta(description="Where to go on: `next` of the answer before."),
    ] = None


class SearchMatch(AnswerMembers, kw_only=True, frozen=True):
    """A line that matches, and whose it is: bytes `offset` to `end` of its stream, without its newline."""

    process_id: str
    name: str | None
    short_id: str | None
    project: str | None
    command: Annotated[str, Meta(description="The first 200 characters.")]
    type: StreamName
    offset: int
    end: int
    hit: Annotated[int, Meta(description="The byte of the stream at which the match begins.")]
    hit_end: int
    at: Annotated[int, Meta(description="Bytes of both streams that were written before the match.")]
    line: Annotated[str, Meta(description="At most 8 KiB of it.")]
    line_from: Annotated[int, Meta(description="The byte of the stream at which `line` begins.")]
    truncated: bool
    before: list[str]
    after: list[str]
    redacted: Redacted = 0


class SearchAnswer(AnswerMembers, kw_only=True, frozen=True):
    """What was found so far, the newest process first; in each process stdout comes before stderr."""

    matches: list[SearchMatch]
    next: Annotated[str | None, Meta(description="Where to go on; null once everything was searched.")]
    processes: Annotated[int, Meta(description="How many were searched to their end for this answer.")]
    read_bytes: Annotated[int, Meta(description="How much output was read for it.")]
    searched_bytes: Annotated[
        int, Meta(description="How much output it has searched: what was read, and what an index excludes.")
    ]
    left_bytes: Annotated[
        int, Meta(description="How much output is still to be searched, about; what was released counts.")
    ]
    unreadable: Annotated[int, Meta(description="Of these processes the output could not be read.")]
