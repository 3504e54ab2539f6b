"""Names of files as text of the wire, and names of unfinished ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.core.file_words import (
    name_bytes,
    part_name,
    parts_of,
    shown_name,
    wire_name,
)

_NAMES = st.binary(min_size=1, max_size=255).filter(lambda raw: b"\0" not in raw)


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
