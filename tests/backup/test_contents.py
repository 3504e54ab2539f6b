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
    FileList,
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
        f"processes/{_ID}/sock",
        f"processes/{_ID}/spec/x",
        f"processes/{_ID}/unfiltered",
        f"processes/{_ID}/unfiltered/sock",
        f"processes/{_ID}/.bashrc",
        f"processes/8{_ID[1:]}/out",
        "tokens.json/x",
        "registry.db/x",
        "registry.db-wal",
        "audit",
        "audit/x.jsonl",
        "audit/lock",
        "waiting/x",
        "notices/x",
        "services/x.json",
        "nodes/NAME/node",
        f"nodes/n/prepared-{_ID}/spec",
        "live\n",
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
    | st.builds(lambda depth: b"[" * depth, st.integers(1000, 4000))
)
def test_a_document_is_read_or_refused(raw: bytes) -> None:
    with pytest.raises(BadArchive):
        decode_header(raw)
    header = decode_header(encode_header(outlive="1", created="now"))
    with pytest.raises(BadArchive):
        Contents.parse(header, raw, FileList())


def test_another_format_is_refused_by_its_number_and_who_made_it() -> None:
    raw = encode_header(outlive="9.1", created="later").replace(b'"format": 1', b'"format": 2')
    with pytest.raises(BadArchive, match=r"format 2, made by outlive 9\.1"):
        decode_header(raw)


_FILES = st.lists(
    st.builds(
        StoredFile,
        name=st.sampled_from(["live", f"processes/{_ID}/out", f"processes/{_ID}/spec"]),
        size=st.integers(0, 1 << 60),
        sha256=st.text(max_size=4),
        data=st.none() | st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=3).map(tuple),
    ),
    max_size=4,
)


def _counted(files: list[StoredFile]) -> FileList:
    counted = FileList()
    for one in files:
        counted.add(one)
    return counted


@given(_FILES, _FILES)
def test_a_manifest_is_right_for_the_files_that_were_written_and_no_other(
    files: list[StoredFile], others: list[StoredFile]
) -> None:
    header = decode_header(encode_header(outlive="1", created="now"))
    contents = Contents.of(_counted(files), header, running=0, has_keys=False)
    assert Contents.parse(header, contents.encode(), _counted(files)) == contents
    if files != others:
        with pytest.raises(BadArchive):
            Contents.parse(header, contents.encode(), _counted(others))


def test_a_name_has_its_place_in_an_archive_once() -> None:
    names = ["live", "audit/000000000001.jsonl", "audit/head", "tokens.json", f"processes/{_ID}/spec"]
    files = FileList()
    for name in (*names, f"processes/{_ID}/out"):
        files.check(name)
    assert files.processes == 1
    for again in (*names, f"processes/{_ID}/out"):
        with pytest.raises(BadArchive):
            files.check(again)


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
