"""What a span says of a command, and what it never says."""

import string
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.identity import new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.extensions.observe.telemetry.command_span import (
    decode_span,
    encode_span,
    error_type,
    program_of,
    span_from,
)

_BEGUN = datetime(2026, 11, 26, tzinfo=UTC)
_NOW = _BEGUN + timedelta(hours=1)
_RECORD = ProcessRecord(  # noqa: S604 -- `shell` is the name of one
    process_id=new_process_id(1, b"0123456789abcd"),
    command="make test",
    shell="/bin/bash",
    cwd="/secret/place",
    state=State.EXITED,
    owner=Owner(principal="uid:7", address="unix pid 4711"),
    pid=42,
    exit_code=0,
    created_at=_BEGUN,
    started_at=_BEGUN + timedelta(seconds=1),
    ended_at=_BEGUN + timedelta(seconds=2.5),
    stdout_bytes=10,
    tags={"customer": "hunter2"},
    name="hunter2",
)


def _line(command: str) -> ProcessRecord:
    return replace(_RECORD, command=command)


@pytest.mark.promise("O.span")
def test_a_span_has_the_names_of_the_conventions() -> None:
    span = span_from(_RECORD, now=_NOW)
    assert span is not None
    assert span.name == "make"
    assert span.ended_ns - span.begun_ns == 1_500_000_000
    assert not span.is_error
    assert span.attributes == {
        "process.executable.name": "bash",
        "process.command": "make",
        "process.pid": 42,
        "process.exit.code": 0,
        "outlive.process_id": _RECORD.process_id,
        "outlive.state": "exited",
        "outlive.principal": "uid:7",
        "outlive.backend": "local",
        "outlive.stdout_bytes": 10,
        "outlive.stderr_bytes": 0,
    }


def test_a_command_that_never_ran_has_none() -> None:
    assert span_from(replace(_RECORD, started_at=None, state=State.FAILED_TO_START), now=_NOW) is None


def test_an_end_that_is_not_known_is_when_it_was_noticed() -> None:
    lost = replace(_RECORD, state=State.LOST, exit_code=None, ended_at=None)
    span = span_from(lost, now=_NOW)
    assert span is not None
    assert span.ended_ns == int(_NOW.timestamp()) * 10**9
    assert span.is_error
    # A clock that was set back makes no span that ends before it begins.
    early = span_from(replace(_RECORD, ended_at=_BEGUN), now=_NOW)
    assert early is not None
    assert early.ended_ns == early.begun_ns


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        ({"exit_code": 3}, "3"),
        ({"cause": Cause.CANCEL}, None),
        ({"exit_code": None, "exit_signal": 15, "cause": Cause.TIMEOUT}, "timeout"),
        ({"exit_code": None, "exit_signal": 11}, "SIGSEGV"),
        ({"exit_code": None, "exit_signal": 40}, "signal 40"),
        ({"exit_code": None, "state": State.LOST}, "lost"),
        ({"output_lost": True}, "output_lost"),
    ],
)
def test_why_it_failed_is_one_of_few_words(changes: dict[str, object], kind: str | None) -> None:
    assert error_type(replace(_RECORD, **changes)) == kind  # type: ignore[arg-type] # members by name


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("make test", "make"),
        ("/usr/bin/env python3", "env"),
        ("true; exit 3", "true"),
        ("cat<file", "cat"),
        ("A=1 B='two words' npm run dev", "npm"),
        ("npm run 'unfinished", "npm"),
        ("if true; then date; fi", "if"),
        ("'a name' b", ""),
        ("", ""),
    ],
)
def test_the_first_word_is_the_program(line: str, program: str) -> None:
    assert program_of(_line(line)) == program


@pytest.mark.promise("O.secret")
@pytest.mark.parametrize(
    "line",
    [
        "TOKEN=hunter2 deploy",
        "TOKEN='hunter2' deploy",
        "TOKEN='a hunter2 b' deploy",
        'TOKEN="a hunter2 b" deploy',
        "TOKEN=a\\ hunter2 deploy",
        "TOKEN=$(echo hunter2 | cat) deploy",
        "TOKEN=`echo hunter2` deploy",
        "TOKEN=`echo hunter2 b` deploy",
        "TOKEN=${X:-a hunter2} deploy",
        "TOKEN=${X:-a hunter2 b} deploy",
        "TOKEN=(a hunter2 b) deploy",
        "TOKENS[1]=hunter2 deploy",
        "TOKENS+=hunter2 deploy",
        "TOKEN=$'a\\' hunter2' deploy",
        "TOKEN='a hunter2",
        "deploy --password hunter2",
        "deploy <<< hunter2",
        "<hunter2 deploy",
        "# hunter2",
        "$(hunter2)",
        "\\\n TOKEN=hunter2 deploy",
        "TOKEN=x" + "y" * 2000 + "hunter2 deploy",
        "TOKEN=hunter2",
        "TOKEN=<(echo hunter2) deploy",
    ],
)
def test_no_value_is_taken_for_the_program(line: str) -> None:
    """An attack: lines whose first words are values, in every way that bash quotes them."""
    span = span_from(_line(line), now=_NOW)
    assert span is not None
    assert b"hunter2" not in encode_span(span)


@pytest.mark.promise("O.secret")
@given(
    secret=st.text(string.ascii_letters, min_size=8, max_size=12),
    quotes=st.sampled_from(["'{}'", '"{}"', "{}", "$'{}'", '"$(echo {})"', "`echo {}`", "$(echo {})"]),
    before=st.sampled_from(["", "a ", "x y "]),
    behind=st.sampled_from(["", " b"]),
)
def test_no_assigned_value_is_in_a_span(secret: str, quotes: str, before: str, behind: str) -> None:
    value = f"{before}{secret}{behind}"
    if quotes == "{}":
        value = value.replace(" ", "\\ ")
    span = span_from(_line(f"A=1 TOKEN={quotes.format(value)} deploy now"), now=_NOW)
    assert span is not None
    assert secret not in encode_span(span).decode()


@pytest.mark.promise("O.secret")
def test_of_what_a_caller_calls_a_process_and_of_its_place_nothing_is_sent() -> None:
    span = span_from(_RECORD, now=_NOW)
    assert span is not None
    for word in (b"hunter2", b"/secret/place", b"4711"):
        assert word not in encode_span(span)


def test_the_whole_command_is_sent_where_the_operator_wants_it() -> None:
    span = span_from(_line("deploy ******"), now=_NOW, shows_line=True)
    assert span is not None
    assert span.attributes["process.command_line"] == "deploy ******"


def test_a_command_that_is_no_text_is_sent_as_far_as_it_is_one() -> None:
    """Such words come from a command line in another encoding; protobuf would refuse the whole batch."""
    span = span_from(_line("echo a\udcffb"), now=_NOW, shows_line=True)
    assert span is not None
    assert span.attributes["process.command_line"] == "echo a?b"


def test_a_line_on_disk_is_the_same_span_again() -> None:
    span = span_from(_RECORD, now=_NOW)
    assert span is not None
    assert decode_span(encode_span(span)) == span


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=400))
def test_a_line_that_is_torn_or_none_is_no_span(junk: bytes, length: int) -> None:
    span = span_from(_RECORD, now=_NOW)
    assert span is not None
    whole = encode_span(span)
    assert decode_span(whole[: min(length, len(whole) - 2)]) is None
    assert decode_span(junk) is None
    assert decode_span(b'{"settled": ["a"]}') is None
    assert decode_span(b'{"process_id": "a", "trace_id": 1, "span_id": "b"}') is None
