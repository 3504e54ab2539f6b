"""What a word of `outlive cp` means, and what a copy is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.client.files.words import FileWord, parse_file_word, target_of
from outlive.core.errors import InvalidRequest
from outlive.core.file_words import name_bytes

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
