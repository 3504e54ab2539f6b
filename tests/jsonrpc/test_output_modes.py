"""chunk, binary, merged output, and what happens at the output limit."""

import pytest

from tests.support.processes import Gate
from tests.support.rpc import Message, RpcClient, connect, output_bytes, output_text, outputs
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_NUMBERS = b"".join(b"%d\n" % number for number in range(1, 200_001))


@pytest.mark.promise("S0.3.chunk", "S0.3.binary")
@pytest.mark.parametrize("output", ["chunk", "binary"])
async def test_a_chunk_holds_many_lines(client: RpcClient, output: str) -> None:
    """S0.3: output "chunk" and "binary" deliver the same bytes in far fewer messages."""
    run = await client.run("seq 1 200000", output=output)
    assert output_bytes(run.messages, run.process_id) == _NUMBERS
    pieces = outputs(run.messages, run.process_id)
    assert len(pieces) < 20_000
    assert pieces[-1]["end"] == len(_NUMBERS)


@pytest.mark.promise("S0.3.chunk")
async def test_chunks_tell_the_streams_apart(client: RpcClient) -> None:
    """S0.3: type stays stdout or stderr."""
    run = await client.run("echo out; echo err >&2", output="chunk")
    assert (run.stdout, run.stderr) == ("out\n", "err\n")


@pytest.mark.promise("S0.3.none")
async def test_none_tells_the_end_and_no_output(client: RpcClient) -> None:
    """S0.3: what was not sent is not a gap, and can be read later."""
    run = await client.run("seq 1 1000; echo err >&2; exit 3", output="none")
    assert outputs(run.messages, run.process_id) == []
    assert [m["method"] for m in run.messages if "method" in m] == ["process.started", "process.completed"]
    assert (run.exit_code, run.completed["cursor"]) == (3, "3893.4")
    await client.request("attach", process_id=run.process_id, cursor="3888.0")
    assert (await client.output(run.process_id, "1000"))["end"] == 3893


@pytest.mark.promise("S0.3.none")
async def test_an_attach_with_none_silences_a_process(client: RpcClient, gate: Gate) -> None:
    """S0.3: the subscription is replaced; the end is still told."""
    result = await client.execute(f"echo heard; {gate.wait}; echo unheard")
    await client.output(result["process_id"], "heard")
    await client.request("attach", process_id=result["process_id"], output="none")
    gate.open()
    await client.completed(result["process_id"])
    assert "unheard" not in output_text(client.messages, result["process_id"])


@pytest.mark.promise("S0.3.merge", "W.cursor.merged")
async def test_merged_streams_keep_the_order_of_the_writes(client: RpcClient) -> None:
    """S0.3 merge: one pipe, everything is stdout, the cursor is "<bytes>.0"."""
    run = await client.run("for n in $(seq 1 500); do echo out$n; echo err$n >&2; done", merge=True)
    assert run.lines == [f"{name}{number}\n" for number in range(1, 501) for name in ("out", "err")]
    assert run.stderr == ""
    assert run.completed["cursor"] == f"{len(run.stdout)}.0"


def _told(messages: list[Message], process_id: str) -> list[tuple[int, int, str]]:
    """Return (from, to, data or "") of every output and gap of stdout, in wire order."""
    told: list[tuple[int, int, str]] = []
    for message in messages:
        params = message.get("params", {})
        if params.get("process_id") != process_id or params.get("type") != "stdout":
            continue
        if message["method"] == "process.gap":
            told.append((params["from"], params["to"], ""))
        elif message["method"] == "process.output":
            told.append((params["end"] - len(params["data"]), params["end"], params["data"]))
    return told


@pytest.mark.promise("S0.20.gap")
async def test_a_range_that_the_log_no_longer_holds_is_told_as_a_gap(server: OutliveServer) -> None:
    """S0.20: process.gap {process_id, type, from, to, cursor}; head and tail stay, offsets stay true."""
    line = "y" * 999 + "\n"
    command = f"yes {line.strip()} | head -n 40000"
    async with connect(server.url) as client:
        result = await client.execute(command, output_limit=2_000_000, output="chunk", detach=True)
        await client.completed(result["process_id"])
    async with connect(server.url) as reader:
        await reader.request("attach", process_id=result["process_id"], cursor="0", output="chunk")
        done = await reader.completed(result["process_id"])
        told = _told(reader.messages, result["process_id"])
        gaps = [m["params"] for m in reader.messages if m.get("method") == "process.gap"]
    assert done["exit_code"] == 0
    assert done["cursor"] == "40000000.0"
    assert gaps
    assert {"process_id", "type", "from", "to", "cursor"} <= set(gaps[0])
    position = 0
    for start, end, data in told:
        assert start == position
        assert not data or data == (line * (len(data) // 1000 + 2))[start % 1000 :][: end - start]
        position = end
    assert position == 40_000_000
    assert told[0][2].startswith(line)
    assert told[-1][2].endswith(line)
    assert sum(gap["to"] - gap["from"] for gap in gaps) >= 10_000_000


@pytest.mark.promise("S0.8.error")
async def test_the_limit_policy_kill_ends_the_process_and_says_so(client: RpcClient) -> None:
    """S0.8: error is one sentence for an output limit."""
    result = await client.execute(
        "yes | head -c 200000000", output_limit=1_000_000, on_limit="kill", output="chunk"
    )
    completed = await client.completed(result["process_id"])
    assert completed["status"] == "failed"
    assert completed["exit_code"] in (-15, -9)
    assert "limit" in completed["error"].lower()
