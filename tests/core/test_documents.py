"""What others wrote is decoded within bounds, and what is within them unchanged."""

import json
import sys
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.documents import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_MEMBERS,
    BadDocument,
    checked_json,
    decode_json,
    decode_object,
    decode_text,
    decode_toml,
)

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("[]{}\",\\'#.=\n"))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner), max_leaves=30
)


@given(_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_a_json_text_within_the_bounds_means_what_it_means(
    value: object, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert decode_json(text) == decode_json(text.encode()) == json.loads(text) == value


@given(st.text() | _TEXTS | st.binary() | st.text(st.sampled_from('[]{}",\\:0a')))
def test_every_text_is_decoded_or_refused_in_words(raw: str | bytes) -> None:
    try:
        found = decode_json(raw)
    except BadDocument:
        return
    assert found == json.loads(raw)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":[', "]}]")])
def test_depth_is_bounded_exactly(opening: str, closing: str) -> None:
    times, more = divmod(MAX_DEPTH, opening.count("[") + opening.count("{"))
    outer = "[" * more, "]" * more
    value = f"{outer[0]}{opening * times}1{closing * times}{outer[1]}"
    assert decode_json(value) == json.loads(value)
    assert decode_json(json.dumps(value + "[" * 1000)) == value + "[" * 1000  # in a string nothing counts
    with pytest.raises(BadDocument, match="in each other"):
        decode_json(f"[{value}]")


@given(st.integers(MAX_DEPTH + 1, 200_000), st.sampled_from("[{"), st.binary(max_size=9))
def test_no_depth_is_an_error_of_the_stack(depth: int, mark: str, rest: bytes) -> None:
    opening = mark if mark == "[" else '{"a":'
    with pytest.raises(BadDocument):
        decode_json(opening.encode() * depth + rest)


def test_members_are_bounded_exactly() -> None:
    inner = MAX_MEMBERS - 1  # the array itself is one, each comma the next
    for member in ("1", '",,,,"', '"\\",\\\\"'):
        assert len(decode_json(f"[{','.join([member] * (inner + 1))}]")) == inner + 1
        with pytest.raises(BadDocument, match="members"):
            decode_json(f"[{','.join([member] * (inner + 2))}]")
    with pytest.raises(BadDocument, match="members"):
        decode_json("[" + "[]," * 400_000 + "1]")
    assert decode_json("[1,1,1]", max_members=3) == [1, 1, 1]
    with pytest.raises(BadDocument, match="members"):
        decode_json("[1,1,1]", max_members=2)


def test_bytes_are_bounded_before_anything_is_read() -> None:
    with pytest.raises(BadDocument, match="bytes"):
        checked_json(b" " * (MAX_BYTES + 1))
    assert decode_json(b"12", max_bytes=2) == 12
    with pytest.raises(BadDocument, match="bytes"):
        decode_json(b"123", max_bytes=2)


@pytest.mark.parametrize(
    "raw",
    ["NaN", "-Infinity", "[1e999]", "9" * 5000, "-" + "9" * 30, b"\xff", "[]".encode("utf-16"), "\ufeff1"],
)
def test_what_later_arithmetic_or_text_would_fail_on_is_refused(raw: str | bytes) -> None:
    with pytest.raises(BadDocument):
        decode_json(raw)


@given(_VALUES)
def test_an_object_is_an_object(value: object) -> None:
    text = json.dumps(value)
    if isinstance(value, dict):
        assert decode_object(text) == value
    else:
        with pytest.raises(BadDocument, match="object"):
            decode_object(text)


def test_a_text_of_quotes_alone_is_read_once() -> None:
    """Not each quote up to the end: so many would take hours."""
    with pytest.raises(BadDocument):
        decode_json('"' + '\\"' * 2_000_000)
    with pytest.raises(BadDocument):
        decode_toml('a = "' + '\\"' * 400_000)


def test_a_stack_that_is_full_already_is_no_traceback() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH

    def below(frames: int) -> object:
        return decode_json(text) if not frames else below(frames - 1)

    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    outcomes = set()
    for left in range(20, 80):
        try:
            below(sys.getrecursionlimit() - depth - left)
            outcomes.add("read")
        except BadDocument:
            outcomes.add("refused")
    assert outcomes <= {"read", "refused"}


_TOML = """
title = "a [[[[ # {{{{ \\" \\\\"
path = 'C:\\[[['
long = \"\"\"
[[[[[ ""quoted"" = . . .
\"\"\"\"\"
raw = '''
]]]] ''{{ '''''
empty = \"\"\"\"\"\"
# [[[[[[[[[[ . . . .
floats = [ 1.5, 2.5, 3.5 ]
when = 1979-05-27T07:32:00.999Z
[a.b."c.d".'e[f']
x.y.z = { q = [ { r = 1 } ] }
[[tables]]
n = 0xff
"""


def test_a_toml_text_within_the_bounds_means_what_it_means() -> None:
    assert decode_toml(_TOML) == tomllib.loads(_TOML)
    many = "a = [\n" + "1.5,\n" * 5000 + "]\n" + "".join(f"k{one}.a.b = 1\n" for one in range(5000))
    assert decode_toml(many) == tomllib.loads(many)


@given(st.text(st.sampled_from("ab=[]{}.,\"'\\#\n 1")) | st.text())
def test_every_toml_text_is_decoded_as_the_library_does_or_refused(text: str) -> None:
    try:
        wanted: dict[str, Any] | None = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        wanted = None
    try:
        found = decode_toml(text)
    except BadDocument:
        assert wanted is None or "inf" in text or "nan" in text
    else:
        assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 100_000,
        'a = """\n"""\nb = ' + "[" * 5000,
        "a = ''''x''''\nb = " + "[" * 5000,
        "a" + ".a" * 300_000 + " = 1",
        "[" + "a." * 300_000 + "a]",
        "a" + ' . "a"' * 100_000 + " = 1",
        "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000,
        "a = 1e999",
        "a = nan",
        "a = 1\n" * 200_000 + "b = 1",
    ],
    ids=range(12),
)
def test_a_toml_text_outside_of_a_bound_is_refused(text: str) -> None:
    with pytest.raises(BadDocument):
        decode_toml(text)


@given(st.integers(0, MAX_DEPTH - 1))
def test_toml_is_as_deep_as_json_may_be(depth: int) -> None:
    for text in (f"a = {'[' * depth}{']' * depth}", "a" + ".a" * depth + " = 1", f"[{'a.' * (depth - 1)}a]"):
        try:
            wanted = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        assert decode_toml(text) == wanted


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_read_as_the_editors_of_all_systems_write_it(ending: str, encoding: str) -> None:
    text = "web: é\n\n# 😀\n"
    assert decode_text(text.replace("\n", ending).encode(encoding)) == text
    assert decode_text(b"\xfe\xff" + text.encode("utf-16-be")) == text


def test_a_text_in_an_unknown_encoding_is_refused_or_kept() -> None:
    with pytest.raises(UnicodeDecodeError):
        decode_text("é".encode("latin-1"))
    assert decode_text(b"\xe9", errors="surrogateescape") == "\udce9"
