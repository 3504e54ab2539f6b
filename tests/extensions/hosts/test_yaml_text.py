"""Changing a value of a YAML text: everything else stays to the byte, twice is once, and removing undoes
putting.
"""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from outlive.extensions.hosts.editor import NotEditable, without_value
from outlive.extensions.hosts.entry import editor_of

_YAML = editor_of("yaml")
_PATH = ("extensions", "outlive")
_ENTRY: dict[str, Any] = {
    "enabled": True,
    "name": "outlive",
    "cmd": "/bin/out live: #é",
    "args": ["mcp", "true", '"\\'],
    "n": "no",
}
_VALUES = st.sampled_from(
    [
        " 1 # one",
        ' "a: b # c" # d',
        " [a, {b: c}] # e",
        "\n  x: 1\n  # why\n  y: [2]",
        "\n- x\n- y",
        " |\n  one\n\n  # two\n",
        " >+\n  three\n\n",
        " ~",
        " &aNUMBER {n: 1}",
        "  # nothing",
    ]
)
_SECTIONS = st.sampled_from(
    [
        "",
        "extensions:\n  mine:\n    a: 1 # why\n\n  # about the next\n  other: {b: [1, 2]}\n",
        "extensions:\n      mine:\n        - 1\n        -   2\n",
        'extensions: {mine: {a: 1}, "other": 2} # flow\n',
        "extensions:\n  mine: |\n    text\n\n    more\n",
        "'extensions':\n  mine: >-\n    a\n    b\n# end\n",
    ]
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    parts = [
        f"k{number}:{value}\n".replace("NUMBER", str(number))
        for number, value in enumerate(draw(st.lists(_VALUES, max_size=4)))
    ]
    parts.insert(draw(st.integers(0, len(parts))), draw(_SECTIONS))
    text = (
        draw(st.sampled_from(["", "# top\n\n", "---\n"]))
        + "".join(parts)
        + draw(st.sampled_from(["", "\n", "# end\n"]))
    )
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@given(text=_texts())
def test_putting_adds_the_entry_and_removing_gives_the_text_back(text: str) -> None:
    new = _YAML.put(text, _PATH, value=_ENTRY)
    assert yaml.safe_load(new)["extensions"]["outlive"] == _ENTRY
    assert without_value(yaml.safe_load(new), _PATH) == (yaml.safe_load(text) or {})
    same = next((at for at, (a, b) in enumerate(zip(text, new, strict=False)) if a != b), len(text))
    assert new.endswith(text[same:]), "one piece was put in"
    assert _YAML.put(new, _PATH, value=_ENTRY) == new
    assert _YAML.remove(new, _PATH) == text


@given(text=_texts(), value=st.sampled_from(["/new", "yes", ["a", "b"], False, 7]))
def test_one_key_is_set_in_its_place_or_added(text: str, value: object) -> None:
    new = _YAML.put(text, _PATH, value=_ENTRY)
    for key in ("cmd", "args", "timeout"):
        set_once = _YAML.put(new, (*_PATH, key), value=value)
        assert yaml.safe_load(set_once)["extensions"]["outlive"] == {**_ENTRY, key: value}
        assert _YAML.remove(set_once, _PATH) == text


@given(text=st.text(alphabet="ab:{}[]-#&*|>\n \"'!", max_size=30))
def test_any_text_is_understood_as_yaml_is_or_refused(text: str) -> None:
    try:
        new = _YAML.put(text, _PATH, value=_ENTRY)
    except NotEditable:
        return
    assert without_value(yaml.safe_load(new), _PATH) == (yaml.safe_load(text) or {})


def test_a_comment_behind_a_changed_value_stays() -> None:
    text = "extensions: # all\n  'outlive':   # ours\n    cmd: x # why\n    args:\n      - a\n\n# end\n"
    new = _YAML.put(text, (*_PATH, "cmd"), value="/new")
    assert new == text.replace("cmd: x", "cmd: /new")
    new = _YAML.put(new, (*_PATH, "args"), value=["b"])
    assert new == text.replace("cmd: x", "cmd: /new").replace("  - a", "- b")
    new = _YAML.put("extensions: {} # none\nk: 1\n", _PATH, value={"cmd": "x"})
    assert new == "extensions: # none\n  outlive:\n    cmd: x\nk: 1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "no table|mapping"),
        ("a: [\n", "line 2"),
        ("a: 1\n---\nb: 2\n", "another document"),
        ("{a: 1}\n", "block style"),
        ("extensions:\n  outlive: 1\n  outlive: 2\n", "2 times"),
        ("extensions: 7\n", "no table"),
        ("a: !!python/object:os.system x\n", "constructor"),
        ("x: &a\n  y: *a\n", "holds itself"),
    ],
)
def test_what_cannot_be_changed_without_harm_is_refused(text: str, said: str) -> None:
    with pytest.raises(NotEditable, match=said):
        _YAML.put(text, _PATH, value=_ENTRY)
