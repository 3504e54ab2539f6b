"""Changing a value of a JSON text: everything else stays as it is, twice is once, and removing undoes
putting.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.extensions.hosts.editor import NotEditable
from outlive.extensions.hosts.entry import editor_of

_NAMES = st.text(max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_SECTION, _OURS = _PATH = ("mcpServers", "outlive")
_JSON, _JSONC = editor_of("json"), editor_of("jsonc")
_DOCUMENTS = st.fixed_dictionaries(
    {}, optional={_SECTION: st.dictionaries(_NAMES, _VALUES, max_size=3), "other": _VALUES, "é": _VALUES}
).flatmap(lambda known: st.dictionaries(_NAMES, _VALUES, max_size=3).map(lambda more: {**more, **known}))
_LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"indent": 2},
        {"indent": "\t"},
        {"indent": 4, "ensure_ascii": False},
        {},
        {"separators": (",", ":")},
        {"indent": 0},
    ]
)
_ENDS = st.sampled_from([("", "\n"), ("", ""), (" \n", "\n\n")])


@st.composite
def _texts(draw: st.DrawFn) -> str:
    before, after = draw(_ENDS)
    text = before + json.dumps(draw(_DOCUMENTS), **draw(_LAYOUTS)) + after
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def _without_ours(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without our entry; an empty section counts as none."""
    section = {name: value for name, value in document.get(_SECTION, {}).items() if name != _OURS}
    rest = {name: value for name, value in document.items() if name != _SECTION}
    return {**rest, _SECTION: section} if section else rest


@given(text=_texts(), value=_VALUES)
def test_putting_sets_the_member_and_changes_nothing_else(text: str, value: object) -> None:
    old, new_text = json.loads(text), _JSON.put(text, _PATH, value=value)
    new = json.loads(new_text)
    assert new[_SECTION][_OURS] == value
    assert _JSON.value_at(new_text, _PATH) == value
    assert _without_ours(new) == _without_ours(old)
    assert [name for name in new if name in old] == list(old), "order"
    assert new_text.count("\r\n") == (new_text.count("\n") if "\r\n" in text else 0)


@given(text=_texts(), value=_VALUES)
def test_what_stood_there_stays_to_the_byte(text: str, value: object) -> None:
    """The new text is the old one with one piece put in, or one piece replaced."""
    new, old = _JSON.put(text, _PATH, value=value), text
    if (
        _OURS in json.loads(text).get(_SECTION, {})
        or json.loads(text).get(_SECTION) == {}
        or json.loads(text) == {}
    ):
        return  # a value or an empty object was replaced
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
    assert new.endswith(old[same:])


@given(text=_texts(), value=_VALUES)
def test_twice_is_once(text: str, value: object) -> None:
    once = _JSON.put(text, _PATH, value=value)
    assert _JSON.put(once, _PATH, value=value) == once
    gone = _JSON.remove(text, _PATH)
    assert _JSON.remove(gone, _PATH) == gone


@given(text=_texts(), value=_VALUES)
def test_removing_undoes_putting(text: str, value: object) -> None:
    document = json.loads(text)
    back = _JSON.remove(_JSON.put(text, _PATH, value=value), _PATH)
    assert _without_ours(json.loads(back)) == _without_ours(document)
    assert _OURS not in json.loads(back).get(_SECTION, {})
    if document and document.get(_SECTION) != {} and _OURS not in document.get(_SECTION, {}):
        assert back == text


@given(text=st.text(max_size=40) | st.text(alphabet='{}[]":,/* \n1at\\', max_size=30))
def test_any_text_is_understood_as_json_is_or_refused(text: str) -> None:
    try:
        new = _JSON.put(text, _PATH, value=1)
    except NotEditable:
        return
    assert json.loads(new)[_SECTION][_OURS] == 1
    if text.strip():
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  // mine\n  "a": 1\n}', "line 2: a comment"),
        ('{"a": 1 /* one */}', "line 1: a comment"),
        ('{"a": 1}\n// end', "line 2: a comment"),
        ('{"a": 1,}', "line 1: a name in double quotes"),
        ('{"a" 1}', "a colon"),
        ('{"a": tru}', "Expecting value"),
        ('{"a": 1', "a comma or a closing brace"),
        ("[1]", "an object was expected"),
        ('{"mcpServers": []}', '"mcpServers" is no table'),
        ('{"mcpServers": {}, "mcpServers": {}}', "2 times"),
        ('{"mcpServers": {"outlive": 1, "outlive": 2}}', "2 times"),
        ('{"a": ' + "[" * 100_000, "in each other"),
    ],
)
def test_what_cannot_be_changed_without_harm_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(NotEditable, match=said):
        _JSON.put(text, _PATH, value=1)
    with pytest.raises(NotEditable, match=said):
        _JSON.remove(text, _PATH)


def test_an_entry_is_laid_out_like_its_neighbours() -> None:
    text = '{\n    "a": 1.50,\n    "mcpServers": {\n        "x": {}\n    }\n}\n'
    assert _JSON.put(text, _PATH, value={"args": ["mcp"]}) == (
        '{\n    "a": 1.50,\n    "mcpServers": {\n        "x": {},\n        "outlive": {\n            '
        '"args": [\n'
        '                "mcp"\n            ]\n        }\n    }\n}\n'
    )
    assert _JSON.put('{"a":1}', _PATH, value=2) == '{"a":1, "mcpServers": {"outlive": 2}}'
    assert _JSON.put("", _PATH, value=2) == '{\n  "mcpServers": {\n    "outlive": 2\n  }\n}\n'


_FEW = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from([1, "// no", [1, [2]], {"x": "/*"}, []]),
        _SECTION: st.dictionaries(
            st.sampled_from(["one", "two", _OURS]), st.sampled_from([1, {"y": [3]}, {}]), max_size=2
        ),
        "z": st.none(),
    },
)
_GAPS = st.sampled_from(["", " ", "\n  ", " // why }\n", "/* { */", "\r\n\t", " /* a\nb */ // c\n"])


@st.composite
def _commented(draw: st.DrawFn) -> tuple[str, Any]:
    """Return a text of JSON with comments and trailing commas between its tokens, and what it means."""

    def gap() -> str:
        return draw(_GAPS)

    def comma(parts: list[str]) -> str:
        return "," if parts and draw(st.sampled_from([True, False])) else ""

    def written(value: object) -> str:
        if isinstance(value, dict):
            parts = [f"{gap()}{json.dumps(k)}{gap()}:{gap()}{written(v)}{gap()}" for k, v in value.items()]
            return "{" + ",".join(parts) + comma(parts) + gap() + "}"
        if isinstance(value, list):
            parts = [f"{gap()}{written(one)}{gap()}" for one in value]
            return "[" + ",".join(parts) + comma(parts) + gap() + "]"
        return json.dumps(value)

    document = draw(_FEW)
    return draw(_GAPS) + written(document) + draw(_GAPS), document


@given(made=_commented(), value=_VALUES)
def test_comments_and_trailing_commas_stay_where_they_are(made: tuple[str, Any], value: object) -> None:
    text, document = made
    new = _JSONC.put(text, _PATH, value=value)
    assert _JSONC.value_at(new, _PATH) == value
    assert _without_ours(_JSONC.value_at(new, ())) == _without_ours(document)  # type: ignore[arg-type] # an object
    assert _JSONC.put(new, _PATH, value=value) == new
    back = _JSONC.remove(new, _PATH)
    assert _without_ours(_JSONC.value_at(back, ())) == _without_ours(document)  # type: ignore[arg-type] # an object
    if _OURS not in document.get(_SECTION, {}):
        for comment in ("// why }", "/* { */", "/* a\nb */ // c"):
            assert new.count(comment) == text.count(comment)
            assert back.count(comment) == text.count(comment)
        if document.get(_SECTION) != {} and document:
            assert back == text


@given(text=st.text(alphabet='{}[]":,/* \n1a\\', max_size=30))
def test_any_text_is_understood_as_json_with_comments_is_or_refused(text: str) -> None:
    try:
        new = _JSONC.put(text, _PATH, value=1)
    except NotEditable:
        return
    assert _JSONC.value_at(new, _PATH) == 1


@pytest.mark.parametrize(
    "text", ['{"a": 1,,}', "{,}", '{"a": [,]}', '{"a": /* open }', '{"a": 1} x', '{"a": "\n"}']
)
def test_comments_excuse_no_other_mistake(text: str) -> None:
    with pytest.raises(NotEditable):
        _JSONC.put(text, _PATH, value=1)


def test_a_row_of_comments_is_read_in_one_go() -> None:
    """Two to the power of their number, where each could be divided in two ways."""
    text = '{"a": 1, ' + "/* x */ " * 2000 + '"b": 2}'
    assert _JSONC.value_at(text, ("b",)) == 2
