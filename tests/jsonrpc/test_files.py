"""Files over JSON-RPC: each method as docs/jsonrpc.md has it, with text frames and with bytes as they are."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

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
