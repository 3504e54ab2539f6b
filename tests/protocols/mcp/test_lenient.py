"""Arguments as models send them: what can only mean one thing is taken, the rest is refused with what there
is.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.protocols.mcp import arguments
from outlive.protocols.mcp.arguments import read_arguments
from outlive.protocols.mcp.lenient import SYNONYMS, accept_arguments

_SHAPES: dict[type[msgspec.Struct], tuple[str, ...]] = {
    arguments.RunArguments: ("command", "script", "wait_s", "wait_for", "timeout"),
    arguments.ReadArguments: ("id", "grep", "tail"),
    arguments.WaitArguments: ("ids", "mode", "wait_for", "wait_s"),
    arguments.SendArguments: ("id", "text", "keys", "eof"),
    arguments.StopArguments: ("ids",),
    arguments.ControlArguments: ("id", "action", "signal"),
    arguments.ListArguments: ("all",),
}
_NAMES = sorted(
    {field.encode_name for shape in _SHAPES for field in msgspec.structs.fields(shape)} | set(SYNONYMS)
)
_WORDS = st.sampled_from(
    [
        "p1",
        "1",
        "5",
        "2d",
        "90s",
        "1e9",
        "true",
        "ready",
        "3000",
        ":80",
        "port 7",
        "",
        " ",
        "kill",
        "[p1, p2]",
    ]
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.text(st.characters(categories=["Cs"]), max_size=2)
    | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | _WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)


def _read(shape: type[msgspec.Struct], **raw: object) -> Any:  # noqa: ANN401 -- an instance of the shape
    return read_arguments(raw, shape, listed=_SHAPES[shape])


@pytest.mark.promise("S4.13.lenient")
@given(
    st.sampled_from(sorted(_SHAPES, key=str)),
    st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=8), _JSON, max_size=5),
)
@example(arguments.RunArguments, {"command": "x", "timeout": float("nan")})
@example(arguments.RunArguments, {"command": "x", "wait_s": "9" * 400})
@example(arguments.RunArguments, {"command": [["x"]]})
@example(arguments.WaitArguments, {"ids": {"a": 1}})
@example(arguments.ControlArguments, {"id": "p1", "action": ["kill"]})
def test_nothing_that_is_sent_is_an_accident(shape: type[msgspec.Struct], raw: dict[str, object]) -> None:
    """Any JSON is taken, or refused with words that say what the tool takes."""
    words: tuple[object, object]
    try:
        read = read_arguments(raw, shape, listed=_SHAPES[shape])
    except InvalidRequest as error:
        words = error.message, error.hint
    else:
        words = isinstance(read, shape), True
    assert all(words)


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("name", "sent", "taken"),
    [
        ("timeout", "5", 5.0),
        ("timeout", 86_400, 86_400.0),
        ("timeout", "90s", 90.0),
        ("timeout", "2 minutes", 120.0),
        ("timeout", "1.5h", 5400.0),
        ("timeout", "2d", 172_800.0),
        ("timeout", "120000ms", 120.0),
        ("timeout", "0", None),
        ("timeout", None, None),
        ("wait_s", "0", 0.0),
        ("wait_s", "1m", 60.0),
        ("budget", "300", 300),
        ("budget", 20, 100),
        ("budget", 0, 100),
        ("budget", 5_000_000, 1_000_000),
        ("raw", "true", True),
        ("pty", "false", False),
        ("tty", True, True),
        ("env", {"PORT": 3000, "X": 1.5, "DEBUG": True}, {"PORT": "3000", "X": "1.5", "DEBUG": "true"}),
        ("env", {"GONE": None}, {"GONE": None}),
        ("wait_for", "ready", arguments.WaitFor(text=("ready",))),
        ("wait_for", "200", arguments.WaitFor(text=("200",))),
        ("wait_for", 3000, arguments.WaitFor(text=("3000",))),
        ("wait_for", "port 3000", arguments.WaitFor(port=(3000,))),
        ("wait_for", "Port: 80", arguments.WaitFor(port=(80,))),
        ("wait_for", ":3000", arguments.WaitFor(port=(3000,))),
        ("until", "ready", arguments.WaitFor(text=("ready",))),
        (
            "wait_for",
            ["ready", "error", "port 80", ":81", " "],
            arguments.WaitFor(text=("ready", "error"), port=(80, 81)),
        ),
        ("wait_for", '["ready", "port 80"]', arguments.WaitFor(text=("ready",), port=(80,))),
        ("wait_for", "[y/N]", arguments.WaitFor(text=("[y/N]",))),
        ("wait_for", {"port": "3000", "idle_s": "2"}, arguments.WaitFor(port=(3000,), idle_s=2.0)),
        ("wait_for", {"text": ["a", "b"], "port": [1]}, arguments.WaitFor(text=("a", "b"), port=(1,))),
        ("wait_for", [], None),
        ("wait_for", "", None),
    ],
)
def test_a_value_is_taken_as_it_is_meant(name: str, sent: object, taken: object) -> None:
    canonical = {"tty": "pty", "until": "wait_for"}.get(name, name)
    assert getattr(_read(arguments.RunArguments, command="x", **{name: sent}), canonical) == taken


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("shape", "sent", "name", "taken"),
    [
        (arguments.ReadArguments, {"id": "p1", "cursor": 0}, "cursor", "0"),
        (arguments.ReadArguments, {"id": "p1", "cursor": 12.5}, "cursor", "12.5"),
        (arguments.ReadArguments, {"id": "p1", "offset": 90}, "cursor", "90"),
        (arguments.ReadArguments, {"ids": ["p1"]}, "id", "p1"),
        (arguments.ReadArguments, {"id": [1]}, "id", "p1"),
        (arguments.ReadArguments, {"id": "p1", "head": "5"}, "head", 5),
        (arguments.ReadArguments, {"id": "p1", "tail": -5}, "tail", 5),
        (arguments.ReadArguments, {"id": "p1", "max_output": 500}, "budget", 500),
        (arguments.WaitArguments, {"ids": "p1", "timeout": 5}, "wait_s", 5.0),
        (arguments.WaitArguments, {"ids": "p1", "timeout_ms": 5000}, "wait_s", 5.0),
        (arguments.SendArguments, {"id": "p1", "data": "y"}, "text", "y"),
        (arguments.SendArguments, {"id": "p1", "text": 5}, "text", "5"),
        (arguments.RunArguments, {"command": "x", "timeout_ms": 5000}, "timeout", 5.0),
        (arguments.RunArguments, {"command": "x", "yield_time_ms": 1500}, "wait_s", 1.5),
        (arguments.RunArguments, {"command": "x", "restart": False}, "command", "x"),
        (arguments.RunArguments, {"command": "x", "shell": True}, "command", "x"),
        (arguments.RunArguments, {"command": "x", "env": ["A=1", "B=2=3"]}, "env", {"A": "1", "B": "2=3"}),
        (arguments.RunArguments, {"command": "x", "env": "A=1"}, "env", {"A": "1"}),
        (arguments.RunArguments, {"command": "x", "key": 5}, "key", "5"),
        (arguments.RunArguments, {"command": "x", "pty": "yes"}, "pty", True),
        (arguments.ListArguments, {"all": "yes"}, "all", True),
        (arguments.ListArguments, {"all": "no"}, "all", False),
        (arguments.ListArguments, {"limit": 1000}, "limit", 200),
        (arguments.ControlArguments, {"id": "p1", "signal": "HUP"}, "action", "signal"),
    ],
)
def test_what_can_mean_one_thing_is_taken(
    shape: type[msgspec.Struct], sent: dict[str, object], name: str, taken: object
) -> None:
    assert getattr(_read(shape, **sent), name) == taken


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("shape", "sent", "said"),
    [
        (arguments.RunArguments, {"command": "x", "env": [5]}, 'For example env={"PORT": "3000"}.'),
        (arguments.RunArguments, {"command": "x", "wait_for": True}, '"port 3000"'),
        (arguments.RunArguments, {"command": "x", "wait_s": "soon"}, "wait_s=30"),
        (arguments.RunArguments, {"command": "cat", "stdin": "some text"}, "<<'EOF'"),
        (arguments.ReadArguments, {"ids": ["p1", "p2"]}, "wait(ids=["),
        (arguments.ReadArguments, {"id": "p1", "tail": "last"}, "tail=50"),
        (arguments.WaitArguments, {}, "ids is missing"),
        (arguments.ControlArguments, {"id": "p1"}, "action is missing"),
    ],
)
def test_what_is_refused_is_shown_by_an_example(
    shape: type[msgspec.Struct], sent: dict[str, object], said: str
) -> None:
    """No word of a decoder: "expected object | null, got array" tells a model nothing."""
    with pytest.raises(InvalidRequest) as caught:
        _read(shape, **sent)
    words = f"{caught.value.message} {caught.value.hint}"
    assert said in words
    assert not any(word in words for word in ("expected", "null", "enum", "Object", "str"))


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("name", ["background", "run_in_background", "is_background"])
@pytest.mark.parametrize(
    ("sent", "wait_s"), [(True, 0), ("true", 0), (1, 0), (False, None), ("false", None), (None, None)]
)
def test_background_means_that_nothing_is_waited_for(name: str, sent: object, wait_s: float | None) -> None:
    assert _read(arguments.RunArguments, command="x", **{name: sent}).wait_s == wait_s


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("name", ["description", "explanation", "reason", "title"])
def test_what_only_explains_is_left_out(name: str) -> None:
    assert _read(arguments.RunArguments, command="x", **{name: "why"}) == _read(
        arguments.RunArguments, command="x"
    )


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("sent", "ids"),
    [
        ("p1", ["p1"]),
        (1, ["p1"]),
        ("1", ["p1"]),
        ([1, "2", "p3"], ["p1", "p2", "p3"]),
        ("p1, p2", ["p1", "p2"]),
        ('["p1", "p2"]', ["p1", "p2"]),
        ("p1 p2", ["p1", "p2"]),
    ],
)
@pytest.mark.parametrize("shape", [arguments.WaitArguments, arguments.StopArguments])
@pytest.mark.parametrize("name", ["ids", "id", "process_id", "session_id", "bash_id"])
def test_ids_are_taken_in_any_form(
    shape: type[msgspec.Struct], name: str, sent: object, ids: list[str]
) -> None:
    assert _read(shape, **{name: sent}).ids == ids


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ("kill", "cancel"),
        ("Stop", "cancel"),
        ("terminate", "cancel"),
        ("suspend", "pause"),
        ("continue", "resume"),
        ("interrupt", "signal"),
        ("pause", "pause"),
    ],
)
def test_actions_have_the_names_that_other_tools_give_them(sent: str, taken: str) -> None:
    assert _read(arguments.ControlArguments, id=3, action=sent) == arguments.ControlArguments(
        id="p3",
        action=taken,
    )


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize("sent", [120_000, "120000", 86_401, 1e12])
def test_milliseconds_are_not_taken_for_seconds(sent: object) -> None:
    with pytest.raises(InvalidRequest, match="more than a day") as caught:
        _read(arguments.RunArguments, command="x", timeout=sent)
    assert caught.value.details == {"parameter": "timeout"}
    assert '"2d"' in (caught.value.hint or "")
    assert "milliseconds" in (caught.value.hint or "")


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    ("shape", "raw", "likely"),
    [
        (arguments.RunArguments, {"comand": "x"}, "command"),
        (arguments.RunArguments, {"command": "x", "time_out": 3}, "timeout"),
        (arguments.ReadArguments, {"id": "p1", "tails": 3}, "tail"),
        (arguments.SendArguments, {"id": "p1", "txt": "x"}, "text"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_likeliest_one(
    shape: type[msgspec.Struct], raw: dict[str, object], likely: str
) -> None:
    with pytest.raises(InvalidRequest, match="There is no argument") as caught:
        _read(shape, **raw)
    assert f"Did you mean {likely!r}?" in caught.value.message
    for name in _SHAPES[shape]:
        assert name in (caught.value.hint or "")


@pytest.mark.promise("S4.13.lenient")
@pytest.mark.parametrize(
    "raw",
    [
        {"command": "x", "cmd": "y"},
        {"cmd": "x", "bash": "y"},
        {"cmd": "x", "command": "y"},
        {"command": "x", "timeout": 3, "timeout_s": 4},
        {"command": ["x"], "argv": ["y"]},
    ],
)
def test_of_two_names_for_one_thing_neither_is_lost_silently(raw: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        _read(arguments.RunArguments, **raw)


@pytest.mark.promise("S4.13.lenient")
def test_a_command_of_words_needs_no_shell() -> None:
    read = _read(arguments.RunArguments, command=["ls", "-l", "a b"])
    assert (read.command, read.argv) == (None, ("ls", "-l", "a b"))


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("enter", ["enter"]),
        (["ctrl+c"], ["ctrl-c"]),
        (["^C", "C-d", "Control-Z"], ["ctrl-c", "ctrl-d", "ctrl-z"]),
        (["Return", "Escape"], ["enter", "esc"]),
        (["q", "^", "/"], ["q", "^", "/"]),
    ],
)
def test_keys_are_taken_by_the_names_that_models_give_them(sent: object, meant: list[str]) -> None:
    listed = _SHAPES[arguments.SendArguments]
    assert (
        accept_arguments({"id": "p1", "keys": sent}, arguments.SendArguments, listed=listed)["keys"] == meant
    )


def test_a_refusal_does_not_repeat_a_secret() -> None:
    with pytest.raises(InvalidRequest) as caught:
        _read(arguments.RunArguments, command="ls", env_secrets=["TOKEN", "hunter2"])
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
    assert "env_secrets" in caught.value.message
