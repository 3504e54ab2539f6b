"""What is said of a request that makes no sense: what was given, what is possible, the nearest name."""

import json

import msgspec
import pytest

from outlive.core.errors import InvalidRequest
from outlive.frontends.jsonrpc.controls import ControlParams
from outlive.operations.controls import Denial
from outlive.operations.requests import convert_request, decode_request
from outlive.protocols.jsonrpc.params import ExecuteParams
from outlive.protocols.jsonrpc.requests import RequestRefusal, parse_frame
from outlive.protocols.mcp.arguments import ShellArguments, TerminateArguments, read_arguments
from tests.support.door_words import DECODERS


@pytest.mark.promise("S0.11")
@pytest.mark.parametrize(
    ("shape", "members", "said"),
    [
        (ExecuteParams, {"command": 5}, "command: a text or null is needed, not 5."),
        (ExecuteParams, {"argv": ["x", 1]}, "argv[1]: a text is needed, not 1."),
        (ExecuteParams, {"argv": "ls"}, "argv: a list of texts or null is needed, not a text."),
        (
            ExecuteParams,
            {"command": "x", "env": {"A": "", "B": 1}},
            "env.B: a text or null is needed, not 1.",
        ),
        (ExecuteParams, {"command": "x", "env": ["A=1"]}, "env: an object is needed, not a list."),
        (
            ExecuteParams,
            {"command": "x", "rows": 0},
            "rows: a whole number from 1 to 65535 is needed, not 0.",
        ),
        (ExecuteParams, {"command": "x", "pty": "yes"}, "pty: true or false is needed, not 'yes'."),
        (
            ExecuteParams,
            {"command": "x", "tags": {"": "a"}},
            "tags: the names in it are a text of 1 to 128 characters.",
        ),
        (
            ExecuteParams,
            {"command": "x", "stdin": "pip"},
            "stdin: one of lent, none, pipe is needed, not 'pip'; did you mean pipe?",
        ),
        (
            ExecuteParams,
            {"command": "x", "limits": {"memry": 1}},
            "limits.memry: it is not known; did you mean memory?",
        ),
        (
            ControlParams,
            {"type": "STOP"},
            "type: one of CANCEL, PAUSE, RESUME or null is needed, not 'STOP'.",
        ),
        (ShellArguments, {}, "cmd: it is missing; a text is needed."),
        (ShellArguments, {"cmdd": "x"}, "cmd: it is missing; a text is needed ('cmdd' was given)."),
        (TerminateArguments, {"pid": None}, "pid: a whole number is needed, not null."),
        (Denial, {"reson": "no"}, "reson: it is not known; did you mean reason?"),
        (ExecuteParams, [1], "an object is needed, not a list."),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_possible(
    shape: type[msgspec.Struct], members: object, said: str
) -> None:
    """Issue 38, 4: "expected str | null", "invalid enum value", "Object missing required field"."""
    with pytest.raises(InvalidRequest) as refused:
        convert_request(members, shape)
    assert refused.value.message == said
    with pytest.raises(InvalidRequest) as refused:
        decode_request(json.dumps(members).encode(), shape)
    assert refused.value.message == said


def test_a_text_that_may_be_a_secret_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as refused:
        convert_request({"command": "x", "env": "TOKEN=hunter2"}, ExecuteParams)
    assert refused.value.message == "env: an object is needed, not a text."


@pytest.mark.promise("S0.11")
@pytest.mark.parametrize("frame", ['{"id":1,', '{"id":1,"a":tru}', '{"id":1 "a":2}', "[" * 100_000])
def test_a_frame_that_is_no_json_is_refused_without_a_decoders_words(frame: str) -> None:
    refusal = parse_frame(frame)
    assert isinstance(refusal, RequestRefusal)
    assert refusal.error.code == "parse_error"
    assert not DECODERS.search(refusal.error.message), refusal.error.message


@pytest.mark.parametrize("value", ["\ud800", 10**30])
def test_what_no_json_holds_is_refused_without_a_decoders_words(value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_arguments({"cmd": value}, ShellArguments)
    assert not DECODERS.search(refused.value.message), refused.value.message
