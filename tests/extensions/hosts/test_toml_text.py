"""Changing a value of a TOML text: everything else stays to the byte, twice is once, and removing undoes
putting.
"""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.extensions.hosts.editor import NotEditable, without_value
from outlive.extensions.hosts.entry import editor_of

_TOML = editor_of("toml")
_PATH = ("mcp_servers", "outlive")
_ENTRY: dict[str, Any] = {
    "command": "/bin/outlive",
    "args": ["mcp", 'a"b\x7f\\'],
    "enabled": True,
    "env": {"A": "é"},
}
# Whole statements, each right on its own, with what a careless scanner would stumble over.
_STATEMENTS = st.sampled_from(
    [
        "a{} = 1 # = [x]",
        'b{} = [ \'x\', # ]\n  "y\\"]",\n]',
        'c{} = """\n[mcp_servers.outlive]\n"" \\""" # still c"""  # end',
        "d{} = '''\n# not = a comment\n[z]'''''",
        '"q.{}#=[" = {{ x = "}}", y = [1, 2] }}',
        "[t{}]\nx = 1979-05-27T07:32:00Z",
        "[[arr]] # {}\nx = 1",
        "[arr.sub{}]",
        "\n# about {}\n",
        '[mcp_servers.other{}]\ncommand = "x"\n[mcp_servers.other{}.env]\nA = "]"',
    ]
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    parts = [
        one.replace("{}", str(number)).replace("{{", "{").replace("}}", "}")
        for number, one in enumerate(draw(st.lists(_STATEMENTS, max_size=6)))
    ]
    text = "\n".join(parts) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # [arr.sub] before [[arr]]
        return ""
    return text


@given(text=_texts())
def test_putting_adds_the_entry_and_removing_gives_the_text_back(text: str) -> None:
    new = _TOML.put(text, _PATH, value=_ENTRY)
    assert tomllib.loads(new)["mcp_servers"]["outlive"] == _ENTRY
    assert without_value(tomllib.loads(new), _PATH) == tomllib.loads(text)
    assert new.startswith(text)
    assert _TOML.put(new, _PATH, value=_ENTRY) == new
    assert _TOML.remove(new, _PATH).rstrip("\r\n") == text.rstrip("\r\n")
    if text.endswith("\n") or not text:
        assert _TOML.remove(new, _PATH) == text


@given(text=_texts(), value=st.sampled_from(["/new", ["a", "b"], True, 7]))
def test_one_key_is_set_in_its_place_or_added(text: str, value: object) -> None:
    new = _TOML.put(text, _PATH, value=_ENTRY)
    for key in ("command", "timeout"):
        set_once = _TOML.put(new, (*_PATH, key), value=value)
        assert tomllib.loads(set_once)["mcp_servers"]["outlive"] == {**_ENTRY, key: value}
        assert set_once.startswith(text)
        assert _TOML.remove(set_once, _PATH).rstrip("\r\n") == text.rstrip("\r\n")


@given(text=st.text(alphabet="[]{}\"'=.#\n\\ am1,", max_size=30))
def test_any_text_is_understood_as_toml_is_or_refused(text: str) -> None:
    try:
        new = _TOML.put(text, _PATH, value=_ENTRY)
    except NotEditable:
        return
    assert without_value(tomllib.loads(new), _PATH) == tomllib.loads(text)


def test_an_entry_in_parts_of_the_text_is_removed_whole_and_comments_of_others_stay() -> None:
    text = (
        "# top\n[mcp_servers.outlive]\ncommand = 'x' # ours\n\n# about tui\n[tui]\na = 1\n\n"
        "[mcp_servers.outlive.env]\nA = 'b'\n\n[mcp_servers]\nother.command = 'y'\n"
    )
    assert _TOML.remove(text, _PATH) == (
        "# top\n\n# about tui\n[tui]\na = 1\n\n[mcp_servers]\nother.command = 'y'\n"
    )


def test_a_comment_behind_a_changed_value_stays_and_so_does_a_value_of_several_lines() -> None:
    text = (
        "[mcp_servers.outlive]\n'command' =  \"a # b = c\"  # = [mine]\nargs = [ # first\n  'x', # ]\n]\n"
        "# end of it\n\n[tui]\n"
    )
    new = _TOML.put(text, (*_PATH, "command"), value="/new")
    assert new == text.replace('=  "a # b = c"', '= "/new"')
    new = _TOML.put(text, (*_PATH, "timeout"), value=1.5)
    assert new == text.replace("\n]\n", "\n]\ntimeout = 1.5\n")


def test_values_that_take_too_long_to_find_are_refused() -> None:
    """A statement's end is looked for by parsing; a project's file may be hostile."""
    for text in (
        "a = [\n" + "[1],\n" * 100_000 + "]\n",
        f'"{"=" * 1000}" = 1\n',
        "[mcp_servers.outlive]\ncommand = '" + "#" * 1000 + "'\n",
    ):
        with pytest.raises(NotEditable, match="too"):
            _TOML.put(text, (*_PATH, "command"), value="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcp_servers = { a = { command = 'x' } }\n", "twice|harm|overwrite|mutate"),
        ("mcp_servers = 1\n", "no table"),
        ("a = \n", "line 1"),
        ("a = " + "[" * 100_000, "in each other"),
    ],
)
def test_what_cannot_be_changed_without_harm_is_refused(text: str, said: str) -> None:
    with pytest.raises(NotEditable, match=said):
        _TOML.put(text, _PATH, value=_ENTRY)
