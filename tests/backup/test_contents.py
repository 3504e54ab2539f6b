"""What a backup holds, as data: names, both documents, released ranges."""

import fnmatch
import inspect
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.layout import Layout
from outlive.store.backup.contents import (
    KEPT,
    KEYS,
    LEFT_OUT,
    BadArchive,
    Contents,
    StoredFile,
    checked_path,
    clipped_gaps,
    decode_header,
    encode_header,
)

_ID = "01m8arfxkh5b83tznvhe3j2pyk"


def test_every_file_of_the_state_folder_is_kept_or_left_out_for_a_reason() -> None:
    layout = Layout("/s")
    names = [name for name, _ in inspect.getmembers(Layout, lambda one: isinstance(one, property))]
    paths = {os.path.relpath(getattr(layout, name), "/s") for name in names}
    assert len(paths) > 30
    unknown = {
        path for path in paths if path not in KEPT and not any(fnmatch.fnmatch(path, one) for one in LEFT_OUT)
    }
    assert not unknown
    assert not set(KEPT) & set(LEFT_OUT)
    assert set(KEPT) > KEYS


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../processes/x",
        "processes/../../x",
        f"processes/{_ID}/../../../x",
        f"processes/{_ID}/./out",
        f"processes//{_ID}/out",
        f"processes/{_ID}/",
        "processes/notanid/out",
        f"processes/{_ID}",
        f"processes/{_ID}/index",
        "server.lock",
        "keeper.sock",
        "restore.incomplete",
        ".ssh/authorized_keys",
        f"processes/{_ID}/a\nb",
        f"processes/{_ID}/a\0b",
        f"processes/{_ID}/" + "x" * 256,
        f"processes/{_ID}/a/b/c/d",
    ],
)
def test_a_name_that_no_backup_has_is_refused(name: str) -> None:
    with pytest.raises(BadArchive):
        checked_path(name)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    try:
        parts = checked_path(name)
    except BadArchive:
        return
    assert os.path.normpath(f"/s/{name}") == f"/s/{name}" == "/s/" + "/".join(parts)


@given(
    st.binary(max_size=80)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_a_document_is_read_or_refused(raw: bytes) -> None:
    with pytest.raises(BadArchive):
        decode_header(raw)
    header = decode_header(encode_header(outlive="1", created="now"))
    with pytest.raises(BadArchive):
        Contents.parse(header, raw)


def test_a_later_format_is_refused_by_its_number() -> None:
    raw = encode_header(outlive="9", created="later").replace(b'"version": 1', b'"version": 2')
    with pytest.raises(BadArchive, match="version 2"):
        decode_header(raw)


@given(
    st.lists(
        st.builds(
            StoredFile,
            name=st.text(max_size=9),
            size=st.integers(0, 1 << 60),
            sha256=st.text(max_size=4),
            data=st.none() | st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=3).map(tuple),
        ),
        max_size=4,
    )
)
def test_a_manifest_says_what_was_written(files: list[StoredFile]) -> None:
    contents = Contents(
        created="now", outlive="1", processes=2, running=1, output_bytes=3, files=tuple(files), has_keys=False
    )
    assert (
        Contents.parse(decode_header(encode_header(outlive="1", created="now")), contents.encode())
        == contents
    )


@given(st.tuples(*[st.integers(0, 99)] * 4), st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_nothing_is_released_behind_the_end_of_a_copy(
    ranges: tuple[int, int, int, int], sizes: tuple[int, int]
) -> None:
    raw = "{} {} {} {}\n".format(*ranges).encode()
    found = [int(word) for word in clipped_gaps(raw, sizes).split()]
    for stream, size in enumerate(sizes):
        before = {place for place in range(*ranges[2 * stream : 2 * stream + 2]) if place < size}
        assert set(range(*found[2 * stream : 2 * stream + 2])) == before


def test_a_torn_line_of_released_ranges_stays_as_it_is() -> None:
    assert clipped_gaps(b"1 2 3", (9, 9)) == b"1 2 3"
