"""Arbitrary bytes, arbitrary cuts: what arrives is what the plain way would have sent (Hypothesis)."""

import json
import sys

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from outlive.policy.redaction import Redactor
from tests.support.reference import lines_of
from tests.support.rpc import Run, connect, outputs
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

# What has broken line splitters and fast encoders before.
_NASTY = [
    b"\n",
    b"\n\n",
    b"\r\n",
    b'",',
    b'"',
    b"\\",
    b"\x7f",
    "\uffff".encode(),
    "\ufffd".encode(),
    "\u2028".encode(),
    b"\x00",
    b"\xff",
    b"\xe2\x82",
    b"\x80",
    "é€😀".encode(),
    b"plain text",
    b"x" * 60,
]
_piece = st.one_of(st.sampled_from(_NASTY), st.binary(max_size=12))
_writes = st.lists(st.tuples(st.sampled_from([1, 2]), st.lists(_piece, max_size=8).map(b"".join)), max_size=8)

# The pause lets the keeper see each write by itself, so that characters and lines are cut everywhere.
_WRITER = """
import json, os, sys, time
for descriptor, data in json.loads(sys.argv[1]):
    os.write(descriptor, bytes.fromhex(data))
    time.sleep(0.002)
"""

_STREAMS = {1: "stdout", 2: "stderr"}
_settings = settings(
    max_examples=40,
    deadline=None,  # real processes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


async def _run(server: OutliveServer, writes: list[tuple[int, bytes]], **params: object) -> Run:
    spec = json.dumps([(descriptor, data.hex()) for descriptor, data in writes])
    async with connect(server.url) as client:
        return await client.run(argv=[sys.executable, "-I", "-S", "-c", _WRITER, spec], **params)


def _written(writes: list[tuple[int, bytes]], descriptor: int) -> bytes:
    return b"".join(data for number, data in writes if number == descriptor)


def _assume_no_secret(writes: list[tuple[int, bytes]]) -> None:
    """Pass over what would be hidden: Hypothesis takes words from our own tables of secrets."""
    for descriptor in _STREAMS:
        assume(not Redactor().is_suspect(_written(writes, descriptor)))


@pytest.mark.thorough
@pytest.mark.promise("S0.6", "S0.6.utf8", "S0.7", "S0.7.character", "S0.20.end")
@_settings
@given(writes=_writes, limit=st.sampled_from([4, 7, 64, 8192]))
@example(
    writes=[(1, b'a",\n"b",\nc'), (1, b"\x7f\n\xef\xbf\xbf\n"), (2, b"\xe2"), (2, b"\x82\xac\n")], limit=8192
)
@example(writes=[(1, "ab€".encode() * 30)], limit=64)
async def test_lines_are_what_the_plain_way_would_have_sent(
    server: OutliveServer, writes: list[tuple[int, bytes]], limit: int
) -> None:
    """S0.6, S0.7, S0.20: texts, truncation, lengths and ends, on both streams."""
    _assume_no_secret(writes)
    run = await _run(server, writes, max_line_bytes=limit)
    assert run.exit_code == 0
    for descriptor, stream in _STREAMS.items():
        expected = lines_of(_written(writes, descriptor), max_line_bytes=limit)
        came = outputs(run.messages, run.process_id, stream)
        assert len(came) == len(expected)
        for params, line in zip(came, expected, strict=True):
            assert params["data"] in line.texts
            assert params["truncated"] is line.truncated
            assert params.get("length") == line.length
            assert params["end"] == line.end
    ends = ".".join(str(len(_written(writes, descriptor))) for descriptor in _STREAMS)
    assert run.completed["cursor"] == ends


@pytest.mark.thorough
@pytest.mark.promise("S0.3.chunk", "S0.6.utf8", "S0.20.end")
@_settings
@given(writes=_writes)
async def test_chunks_joined_are_the_decoded_stream(
    server: OutliveServer, writes: list[tuple[int, bytes]]
) -> None:
    """S0.6: incremental decoding, `end` never splits a character that is whole in the stream."""
    _assume_no_secret(writes)
    run = await _run(server, writes, output="chunk")
    for descriptor, stream in _STREAMS.items():
        data = _written(writes, descriptor)
        came = outputs(run.messages, run.process_id, stream)
        assert "".join(params["data"] for params in came) == data.decode("utf-8", "replace")
        ends = [params["end"] for params in came]
        assert ends == sorted(ends)
        assert (ends[-1] if ends else 0) == len(data)


@pytest.mark.thorough
@pytest.mark.promise("S0.3.binary")
@_settings
@given(writes=_writes)
async def test_binary_frames_joined_are_the_stream(
    server: OutliveServer, writes: list[tuple[int, bytes]]
) -> None:
    """S0.6: binary frames carry the bytes as they are."""
    _assume_no_secret(writes)
    run = await _run(server, writes, output="binary")
    for descriptor, stream in _STREAMS.items():
        came = outputs(run.messages, run.process_id, stream)
        assert b"".join(params["data"] for params in came) == _written(writes, descriptor)
