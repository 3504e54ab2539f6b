"""Files over JSON-RPC: each method as docs/jsonrpc.md has it, with text frames and with bytes as they are."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

from outlive.core.file_words import DIGEST_BYTES
from tests.support.rpc import RpcClient

pytestmark = pytest.mark.anyio

_KEY = "00112233445566ff"
_TEXT = b"some text\n"


@pytest.mark.promise("S0.19.copy_whole")
async def test_a_file_is_read_in_pieces_with_its_digest(client: RpcClient, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(_TEXT)
    opened = await client.request("file_open", path=str(tmp_path))
    assert (opened["place"], opened["entry"]["kind"]) == ("local", "folder")
    copy = opened["copy"]
    page = await client.request("file_list", copy=copy)
    assert [one["name"] for one in page["entries"]] == ["f"]
    assert page["after"] is None
    looked = await client.request("file_look", copy=copy, name="f")
    assert looked["entry"] == page["entries"][0]
    piece = await client.request("file_read", copy=copy, name="f", offset=5, limit=4)
    assert (base64.b64decode(piece["data"]), piece["size"]) == (b"text", len(_TEXT))
    summed = await client.request("file_digest", copy=copy, name="f")
    assert summed == {"size": 10, "length": 10, "sha256": hashlib.sha256(_TEXT).hexdigest()}
    assert await client.request("file_close", copy=copy) == {"done": True}
    assert (await client.failure("file_look", copy=copy)).reason == "copy_unknown"


@pytest.mark.promise("S0.19.copy_whole")
async def test_a_file_is_written_in_pieces_and_has_its_name_when_it_is_whole(
    client: RpcClient, tmp_path: Path
) -> None:
    copy = (await client.request("file_open", path=f"{tmp_path}/new", write=True))["copy"]
    await client.request("file_make", copy=copy, kind="folder")
    piece = {"copy": copy, "name": "f", "key": _KEY}
    data = base64.b64encode(_TEXT).decode()
    assert await client.request("file_write", **piece, data=data) == {"size": 10}
    assert (await client.request("file_look", copy=copy, name="f"))["entry"] is None
    seal = {"size": 10, "mtime_ns": 1, "mode": 0o640, "sha256": hashlib.sha256(_TEXT).hexdigest()}
    made = await client.request("file_make", copy=copy, name="f", kind="file", key=_KEY, seal=seal)
    assert (made["entry"]["mode"], made["entry"]["mtime_ns"]) == (0o640, 1)
    assert (tmp_path / "new" / "f").read_bytes() == _TEXT
    await client.request("file_write", **{**piece, "name": "g"}, data=data)
    assert await client.request("file_drop", copy=copy, name="g", key=_KEY) == {"done": True}
    assert os.listdir(tmp_path / "new") == ["f"]


@pytest.mark.promise("S0.19.copy_bounds")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("file_read", {"limit": 1 << 21}),
        ("file_digest", {"length": 1 << 30}),
        ("file_write", {"key": "../../etc/x", "data": ""}),
        ("file_write", {"key": _KEY, "data": base64.b64encode(bytes((1 << 20) + 1)).decode()}),
        ("file_write", {"key": _KEY, "data": "?"}),
        ("file_make", {"kind": "file"}),
        ("file_look", {"name": "../x"}),
    ],
)
async def test_what_is_out_of_bounds_is_refused(
    client: RpcClient, tmp_path: Path, method: str, params: dict[str, object]
) -> None:
    copy = (await client.request("file_open", path=str(tmp_path), write=True))["copy"]
    failure = await client.failure(method, **{"copy": copy, "name": "f", **params})
    assert failure.reason == "invalid_params"
    assert os.listdir(tmp_path) == []


_SEAL = {"size": 4, "mtime_ns": 1, "mode": 0o777}


@pytest.mark.promise("S0.19.copy_direction")
@pytest.mark.parametrize(
    ("writes", "method", "params"),
    [
        (False, "file_write", {"key": _KEY, "data": "bWluZQ==", "seal": _SEAL}),
        (False, "file_write", {"key": _KEY, "data": ""}),
        (False, "file_make", {"kind": "link", "target": "/etc", "seal": _SEAL}),
        (False, "file_make", {"kind": "settled", "seal": _SEAL}),
        (False, "file_drop", {"key": _KEY}),
        (True, "file_read", {}),
    ],
)
async def test_a_copy_goes_in_the_direction_in_which_it_was_opened(
    client: RpcClient, tmp_path: Path, writes: bool, method: str, params: dict[str, object]
) -> None:
    """Lists have judged the one direction, and nothing has judged the other."""
    (tmp_path / "f").write_text("theirs")
    (tmp_path / f".f.{_KEY}.outlive-part").write_text("part")
    for name in ("", "f"):
        path = tmp_path / "f" if not name else tmp_path
        copy = (await client.request("file_open", path=str(path), write=writes))["copy"]
        failure = await client.failure(method, copy=copy, name=name, **params)
        assert failure.reason == "invalid_params"
        assert "file_open" in failure.hint
    assert (tmp_path / "f").read_text() == "theirs"
    assert (tmp_path / "f").stat().st_mode & 0o777 != 0o777
    assert sorted(os.listdir(tmp_path)) == [f".f.{_KEY}.outlive-part", "f"]


@pytest.mark.promise("S0.19.copy_direction")
async def test_the_digest_of_what_is_to_be_written_is_no_way_to_read_it(
    client: RpcClient, tmp_path: Path
) -> None:
    """A stretch of one byte has 256 digests: only stretches that tell whether a whole file is the same are
    answered.
    """
    (tmp_path / "f").write_bytes(_TEXT)
    (tmp_path / "large").write_bytes(bytes(DIGEST_BYTES) + b"secret")
    reading = (await client.request("file_open", path=str(tmp_path)))["copy"]
    assert (await client.request("file_digest", copy=reading, name="f", offset=3, length=1))["length"] == 1
    copy = (await client.request("file_open", path=str(tmp_path), write=True))["copy"]
    for name, offset, length in (
        ("f", 0, 1),
        ("f", 9, 1),
        ("f", 1, DIGEST_BYTES),
        ("large", DIGEST_BYTES, 6),
        ("large", DIGEST_BYTES, DIGEST_BYTES),
        ("large", 1, DIGEST_BYTES),
        ("large", 0, 5),
    ):
        failure = await client.failure("file_digest", copy=copy, name=name, offset=offset, length=length)
        assert failure.reason == "invalid_params", (name, offset, length)
        assert "secret" not in failure.error["message"]
    for name, offset, length in (("f", 0, DIGEST_BYTES), ("f", 0, 10), ("f", 0, 0)):
        await client.request("file_digest", copy=copy, name=name, offset=offset, length=length)
    for offset in (0, 6):
        await client.request("file_digest", copy=copy, name="large", offset=offset, length=DIGEST_BYTES)
    await client.request("file_write", copy=copy, name="new", key=_KEY, data="bWluZQ==")
    part = await client.request("file_digest", copy=copy, name="new", key=_KEY, offset=1, length=2)
    assert part["length"] == 2  # of what this caller has sent, however short the rest of it is


@pytest.mark.promise("S0.19.copy_bounds")
async def test_one_open_copy_too_many_closes_the_one_that_rested_longest(
    client: RpcClient, tmp_path: Path
) -> None:
    """A killed client leaves its copy open: sixty-four of them keep nobody out."""
    first = (await client.request("file_open", path=str(tmp_path)))["copy"]
    others = [(await client.request("file_open", path=str(tmp_path)))["copy"] for _ in range(64)]
    assert (await client.failure("file_look", copy=first)).reason == "copy_unknown"
    for copy in others:
        assert (await client.request("file_look", copy=copy))["entry"]["kind"] == "folder"
        await client.request("file_close", copy=copy)


@pytest.mark.promise("S0.19.copy_bounds")
async def test_pieces_far_ahead_are_not_all_held(client: RpcClient, tmp_path: Path) -> None:
    copy = (await client.request("file_open", path=str(tmp_path), write=True))["copy"]
    piece = {"copy": copy, "name": "f", "key": _KEY, "data": base64.b64encode(bytes(1 << 20)).decode()}
    sent = [await client.send("file_write", {**piece, "offset": 1 << 40}) for _ in range(26)]
    refused = await client.until(lambda message: message.get("id") in sent)
    assert refused["error"]["data"]["reason"] == "copy_limit"


@pytest.mark.promise("S0.19.copy_bounds")
async def test_copies_that_are_opened_at_once_keep_the_bound(client: RpcClient, tmp_path: Path) -> None:
    sent = [await client.send("file_open", {"path": str(tmp_path)}) for _ in range(100)]
    answers = [await client.response(one) for one in sent]
    copies = [one["result"]["copy"] for one in answers if "result" in one]
    looks = [await client.send("file_look", {"copy": copy}) for copy in copies]
    live = ["result" in await client.response(one) for one in looks]
    assert 0 < sum(live) <= 64
    assert {one["error"]["data"]["reason"] for one in answers if "error" in one} <= {"copy_limit"}
