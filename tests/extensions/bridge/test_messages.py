"""What is sent and what comes, for any text and any nonsense."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlive.core.terminal import ENGINE, TerminalInfo
from outlive.extensions.bridge import messages
from outlive.extensions.bridge.messages import (
    MAX_ERROR,
    MAX_ID,
    MAX_NAME,
    MAX_OUTPUT,
    Broken,
    Failure,
    Pong,
    Success,
    TerminalCreated,
    TerminalWanted,
    Unknown,
    parse_message,
)

_IDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Co", "Cn", "Cf"]),
    min_size=1,
    max_size=40,
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KINDS = ["pong", "terminal_created", "success", "error", "create_terminal", "ping", "weather"]


def _message(kind: str, request_id: object = "r", **data: object) -> str:
    return json.dumps({"type": kind, "id": request_id, "data": data})


@pytest.mark.promise("S3.2")
@given(request_id=_IDS, word=_TEXTS, other=_TEXTS)
def test_requests_are_what_the_document_shows(request_id: str, word: str, other: str) -> None:
    terminal = TerminalInfo(terminal_id=request_id, terminal_name=word, target=ENGINE, state="ready")
    seen = {"terminalId": request_id, "terminalName": word, "path": f"/ws/terminal/{request_id}"}
    for made, kind, data in (
        (messages.create_terminal(request_id, word), "create_terminal", {"terminalName": word}),
        (messages.execute(request_id, word, other), "execute", {"command": other, "terminalId": word}),
        (messages.close_terminal(request_id, word), "close_terminal", {"terminalId": word}),
        (messages.show_terminal(request_id, terminal), "show_terminal", seen),
        (messages.terminal_created(request_id, terminal), "terminal_created", seen),
        (messages.terminals(request_id, [terminal]), "terminals", {"terminals": [seen]}),
        (messages.terminal_closed(request_id, word), "terminal_closed", {"terminalId": word}),
        (
            messages.failed(request_id, word, code="c", hint="h"),
            "error",
            {"error": word, "code": "c", "hint": "h"},
        ),
    ):
        assert json.loads(made) == {"type": kind, "id": request_id, "data": data}
    assert json.loads(messages.ping(request_id)) == {"type": "ping", "id": request_id}


@pytest.mark.promise("S3.3")
@given(request_id=_IDS, terminal_id=_IDS, text=_TEXTS)
def test_answers_are_read_as_the_document_shows_them(request_id: str, terminal_id: str, text: str) -> None:
    assert parse_message(json.dumps({"type": "pong", "id": request_id})) == Pong(request_id)
    created = parse_message(
        _message("terminal_created", request_id, terminalId=terminal_id, terminalName="n")
    )
    assert created == TerminalCreated(request_id, terminal_id, "n")
    assert parse_message(_message("success", request_id, output=text)) == Success(request_id, text)
    told = parse_message(_message("error", request_id, error=text))
    assert isinstance(told, Failure)
    assert told.error.isprintable()
    wanted = parse_message(_message("create_terminal", request_id, terminalName=None, cwd="/x", more=1))
    assert wanted == TerminalWanted(request_id, None, "/x")


@pytest.mark.promise("S3.3.broken")
@given(frame=st.text() | st.binary() | _JSON.map(json.dumps))
@example("[" * 100_000)
@example('{"type":"success","id":"a","data":' + "[" * 50_000 + "]" * 50_000 + "}")
@example('{"a":' + "9" * 5000 + "x}")
@example("\ud800")
def test_nothing_that_comes_raises(frame: str | bytes) -> None:
    assert isinstance(parse_message(frame), Broken | Unknown)


@pytest.mark.promise("S3.3.broken", "S3.4")
@given(
    kind=st.sampled_from(_KINDS),
    request_id=st.none() | _IDS | _JSON,
    data=_JSON
    | st.dictionaries(
        st.sampled_from(["terminalId", "terminalName", "output", "error", "cwd"]), _JSON | st.text()
    ),
)
def test_what_is_nearly_a_message_is_read_right_or_not_at_all(
    kind: str, request_id: object, data: object
) -> None:
    found = parse_message(json.dumps({"type": kind, "id": request_id, "data": data}))
    members = data if isinstance(data, dict) else {}
    if isinstance(found, Broken | Unknown):
        return
    assert isinstance(request_id, str)
    assert 0 < len(found.request_id) <= MAX_ID
    match found:
        case TerminalCreated():
            assert isinstance(members["terminalId"], str)
            assert isinstance(members["terminalName"], str)
            assert found.terminal_id.isprintable()
            assert found.terminal_name.isprintable()
        case Success():
            assert isinstance(members["output"], str)
            found.output.encode()
        case Failure():
            assert isinstance(members["error"], str)
        case TerminalWanted(cwd=cwd):
            assert cwd is None or (
                cwd == members["cwd"].encode("utf-8", "replace").decode() and "\0" not in cwd
            )


@pytest.mark.promise("S3.3")
def test_unknown_types_are_told_by_a_short_name() -> None:
    assert parse_message(_message("weather")) == Unknown("weather")
    found = parse_message(_message("x\n" * 500))
    assert isinstance(found, Unknown)
    assert len(found.kind) == 60
    assert "\n" not in found.kind


@pytest.mark.promise("S3.3.broken")
def test_the_id_of_a_broken_answer_is_kept() -> None:
    """So that its request need not wait for an answer which has come."""
    for frame in (
        _message("success"),
        _message("error", error=7),
        _message("terminal_created", terminalId="", terminalName="x"),
        _message("terminal_created", terminalId="a" * (MAX_ID + 1), terminalName="x"),
        _message("create_terminal", cwd="a\0b"),
        _message("create_terminal", cwd="a" * 5000),
        '{"id":"r"}',
        '{"type":7,"id":"r"}',
    ):
        found = parse_message(frame)
        assert isinstance(found, Broken)
        assert found.request_id == "r"
    for frame in (_message("pong", 7), _message("pong", ""), _message("pong", "a\nb"), "{}", "7"):
        found = parse_message(frame)
        assert isinstance(found, Broken)
        assert found.request_id is None


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (_message("success"), "success: output: it is missing; a text is needed."),
        (_message("error", error=7), "error: error: a text is needed, not 7."),
        (
            _message("success", out_put="x"),
            "success: output: it is missing; a text is needed ('out_put' was given).",
        ),
        ("7", "no JSON object"),
        ("{", "no JSON object"),
    ],
)
def test_a_broken_answer_is_told_in_words_of_its_sender(frame: str, says: str) -> None:
    found = parse_message(frame)
    assert isinstance(found, Broken)
    assert found.reason == says


@pytest.mark.promise("S3.4")
def test_what_is_long_is_cut_and_says_so() -> None:
    output = parse_message(_message("success", output="x" * (MAX_OUTPUT + 7)))
    assert output == Success("r", "x" * MAX_OUTPUT + "\n[… 7 characters left out …]")
    error = parse_message(_message("error", error="x" * (MAX_ERROR + 7)))
    assert error == Failure("r", "x" * (MAX_ERROR - 1) + "…")
    named = parse_message(_message("terminal_created", terminalId="t", terminalName="x" * (MAX_NAME + 7)))
    assert named == TerminalCreated("r", "t", "x" * (MAX_NAME - 1) + "…")


@pytest.mark.promise("S3.3")
def test_half_a_character_of_javascript_costs_that_character_only() -> None:
    assert parse_message('{"type":"success","id":"r","data":{"output":"a\\ud83d"}}') == Success("r", "a?")
