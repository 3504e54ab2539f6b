"""Parameters: what is accepted becomes the engine's words, what is not is refused with the member's name."""

import json

import msgspec
import pytest

from outlive.core.errors import InvalidRequest
from outlive.frontends.jsonrpc.controls import ControlParams, ResizeParams, SignalParams, WriteParams
from outlive.operations.requests import decode_request
from outlive.protocols.jsonrpc.params import (
    AttachParams,
    ExecuteParams,
    ListParams,
    ProcessParams,
    ReadParams,
    WaitParams,
)


def _execute(**members: object) -> ExecuteParams:
    return decode_request(json.dumps(members).encode(), ExecuteParams)


def test_execute_becomes_a_command() -> None:
    """S0.3: every parameter arrives."""
    params = _execute(
        command="make",
        cwd="/x",
        env={"A": "1", "B": None},
        timeout=5,
        grace=0,
        stdin="pipe",
        merge=True,
        detach=True,
        tags={"a": "b"},
        group="g",
        profile="guarded",
        output_limit=10,
        on_limit="kill",
        after_exit="wait",
        unknown={"x": [1]},
    )
    command = params.to_command()
    assert (command.line, command.argv, command.cwd, command.env) == (
        "make",
        None,
        "/x",
        {"A": "1", "B": None},
    )
    assert (command.timeout_s, command.grace_s, command.stdin, command.stdio) == (5.0, 0.0, "pipe", "merge")
    assert (command.detached, command.tags, command.group, command.profile) == (
        True,
        {"a": "b"},
        "g",
        "guarded",
    )
    assert (command.output_limit, command.on_limit, command.after_exit) == (10, "kill", "wait")
    assert _execute(argv=["a", "b"], pty=True, rows=9, cols=8).to_command().stdio == "pty"
    assert _execute(argv=["a", "b"]).to_command().argv == ("a", "b")


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({}, "command"),
        ({"command": "x", "argv": ["x"]}, "argv"),
        ({"command": " \t"}, "empty"),
        ({"command": "a\0"}, "NUL"),
        ({"command": 5}, "command: a text or null is needed, not 5"),
        ({"argv": []}, "argv"),
        ({"argv": [""]}, "argv"),
        ({"argv": ["x", 1]}, "argv"),
        ({"command": "x", "cwd": "a\0"}, "NUL"),
        ({"command": "x", "env": {"A=": "1"}}, "env"),
        ({"command": "x", "env": {"": "1"}}, "env"),
        ({"command": "x", "env": {"A": "\0"}}, "NUL"),
        ({"command": "x", "env": {"A": 1}}, "env"),
        ({"command": "x", "timeout": 0}, "timeout"),
        ({"command": "x", "timeout": 1e300}, "timeout"),
        ({"command": "x", "grace": -1}, "grace"),
        ({"command": "x", "rows": 0}, "rows"),
        ({"command": "x", "cols": 70_000}, "cols"),
        ({"command": "x", "max_line_bytes": 0}, "max_line_bytes"),
        ({"command": "x", "on_limit": "wait"}, "on_limit"),
        ({"command": "x", "stdin": "mine"}, "stdin"),
        ({"command": "x", "words": "hex"}, "words"),
        ({"command": "x", "pty": True, "merge": True}, "not both"),
        ({"command": "eA==", "words": "base64", "pty": True, "merge": True}, "not both"),
        ({"argv": ["x"], "script": "\0"}, "NUL"),
        ({"command": "x", "group": ""}, "group"),
        ({"command": "x", "image": ""}, "image"),
        ({"command": "x", "backend": "x" * 64}, "backend"),
        ({"command": "x", "profile": "weak"}, "profile"),
        ({"command": "x", "tags": {str(one): "" for one in range(65)}}, "tags"),
    ],
)
def test_impossible_execute_parameters_name_their_member(members: dict[str, object], word: str) -> None:
    """S0.11: -32602 with a sentence a person can act on."""
    with pytest.raises(InvalidRequest) as refused:
        _execute(**members)
    assert refused.value.code == "invalid_params"
    assert word in refused.value.message
    assert "`" not in refused.value.message


def test_words_in_base64_become_bytes() -> None:
    """S0.3: what is no UTF-8 can be run, too."""
    command = _execute(
        argv=["/w==", "YQ=="], cwd="Lw==", env={"QQ==": "/g==", "Qg==": None}, words="base64", title="t"
    ).to_command()
    assert command.argv == ("\udcff", "a")
    assert (command.cwd, command.env, command.title) == ("/", {"A": "\udcfe", "B": None}, "t")
    assert _execute(command="bHM=", words="base64", inherit_env=False).to_command().line == "ls"
    with pytest.raises(InvalidRequest, match="words"):
        _execute(command="?", words="base64").to_command()
    with pytest.raises(InvalidRequest, match="either"):
        _execute(words="base64")


@pytest.mark.parametrize(("member", "verb"), [("type", "PAUSE"), ("action", "RESUME"), ("type", "CANCEL")])
def test_control_takes_either_name(member: str, verb: str) -> None:
    """S0.10: type|action."""
    assert decode_request(json.dumps({member: verb}).encode(), ControlParams).verb == verb
    both = decode_request(json.dumps({"type": verb, "action": verb}).encode(), ControlParams)
    assert both.verb == verb


@pytest.mark.parametrize(
    ("shape", "raw"),
    [
        (ControlParams, {}),
        (ControlParams, {"type": "EXPLODE"}),
        (ControlParams, {"type": "PAUSE", "action": "RESUME"}),
        (AttachParams, {}),
        (AttachParams, {"process_id": "x", "cursor": 5}),
        (ListParams, {"limit": 0}),
        (ReadParams, {"limit": 10**9}),
        (ReadParams, {"encoding": "latin-1"}),
        (ResizeParams, {"rows": 3}),
        (SignalParams, {"signal": None}),
        (WaitParams, {"until": "noon"}),
        (WaitParams, {"wait_s": -1}),
        (WriteParams, {}),
        (ProcessParams, []),
        (ProcessParams, "x"),
    ],
)
def test_impossible_parameters_are_refused(shape: type[msgspec.Struct], raw: object) -> None:
    """S0.11: for every method."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(json.dumps(raw).encode(), shape)
    assert refused.value.code == "invalid_params"
    assert refused.value.message.endswith(".")


def test_a_signal_has_one_addressee() -> None:
    """S0.19 signal: the group or the tree."""
    assert decode_request(b'{"signal": 2, "whole_group": true}', SignalParams).whole_group
    with pytest.raises(InvalidRequest, match="not both"):
        decode_request(b'{"signal": 2, "whole_group": true, "whole_tree": true}', SignalParams)
