"""What a word of `outlive cp` means, and names as text of the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.core.file_words import (
    FileWord,
    name_bytes,
    parse_file_word,
    part_name,
    parts_of,
    shown_name,
    target_of,
    wire_name,
)

_NAMES = st.binary(min_size=1, max_size=255).filter(lambda raw: b"\0" not in raw)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        (b"gpu1:/data/", FileWord("gpu1", "/data/")),
        (b"p7:log.txt", FileWord("p7", "log.txt")),
        (b"@last:x", FileWord("@last", "x")),
        (b"local:", FileWord("local", "")),
        (b"data", FileWord(None, "data")),
        (b"./a:b", FileWord(None, "./a:b")),
        (b"/tmp/a:b", FileWord(None, "/tmp/a:b")),
        (b"x y:z", FileWord(None, "x y:z")),
        (b":z", FileWord(None, ":z")),
        (b"gpu1:a:b", FileWord("gpu1", "a:b")),
    ],
)
def test_a_word_is_a_place_with_a_path_or_a_path(word: bytes, meant: FileWord) -> None:
    assert parse_file_word(word) == meant


@pytest.mark.parametrize("word", [b"", b"a\0b"])
def test_a_word_that_means_nothing_is_refused(word: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_file_word(word)


@given(_NAMES)
def test_a_local_path_that_begins_like_one_is_never_a_place(raw: bytes) -> None:
    word = parse_file_word(b"./" + raw)
    assert word.place is None
    assert name_bytes(word.path) == b"./" + raw


@given(_NAMES)
def test_every_name_survives_the_wire(raw: bytes) -> None:
    text = wire_name(raw)
    text.encode()  # it is text that JSON takes
    assert name_bytes(text) == raw
    assert shown_name(text).isprintable()


@given(st.text(max_size=40))
def test_a_text_is_a_name_or_refused(text: str) -> None:
    try:
        raw = name_bytes(text)
    except (InvalidRequest, UnicodeEncodeError):
        return
    assert b"\0" not in raw


@pytest.mark.parametrize("name", ["..", "a/../b", "/etc", "a//b", "./a", "a/.", "a\0002e\0002e"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        parts_of(name)


@given(_NAMES, st.integers(0, 2**64 - 1))
def test_an_unfinished_file_has_a_name_of_its_own(raw: bytes, key: int) -> None:
    assert len(part_name(raw, f"{key:016x}")) <= 255


@pytest.mark.parametrize(
    ("source", "target", "is_folder", "copy"),
    [
        ("a/data", "gpu1:/x", True, "gpu1:/x"),
        ("a/data", "gpu1:/x/", True, "gpu1:/x/data"),
        ("a/data/", "gpu1:/x/", True, "gpu1:/x/"),
        ("gpu1:/out", ".", True, "./out"),
        ("gpu1:/out/m.bin", ".", False, "./m.bin"),
        ("m.bin", "gpu1:", False, "gpu1:m.bin"),
        ("m.bin", "gpu1:/x/n.bin", False, "gpu1:/x/n.bin"),
        (".", "gpu1:/x/", True, "gpu1:/x/"),
    ],
)
def test_what_a_copy_is_called_follows_from_the_words(
    source: str, target: str, is_folder: bool, copy: str
) -> None:
    found = target_of(parse_file_word(source.encode()), parse_file_word(target.encode()), is_folder=is_folder)
    assert str(found) == copy
