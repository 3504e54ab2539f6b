"""What a viewer is sent and may send: bytes both ways, where it begins, how it ends."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import websockets
from anyio import to_thread

from tests.attacks.attacking import Requests, create_token
from tests.support.raw import close_code, masked_header, open_raw_websocket
from tests.support.server import OutliveServer, run_outlive
from tests.terminal_socket.viewing import Seen, start, viewing, written

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_HISTORY = 256 * 1024


@pytest.mark.promise("T.bytes", "T.end")
async def test_bytes_travel_both_ways_as_they_are(server: OutliveServer) -> None:
    """Every byte there is, in output and in input, and text frames as UTF-8."""
    command = "stty raw -echo; printf ready; head -c 262; printf '\\nend'; exit 3"
    process_id = start(server, command)
    everything = bytes(range(256))
    async with viewing(server, process_id, controlled=False) as seen:
        await seen.until_shown(b"ready")
        await seen.socket.send(everything)
        await seen.socket.send("grün…"[:4])
        await seen.socket.send("\n")
        assert await seen.until_over() == (1000, "exited with 3")
    assert bytes(seen.output) == b"ready" + everything + "grün".encode() + b"\n" + b"\nend"
    assert seen.order == ["output"]


@pytest.mark.promise("T.control", "T.end")
async def test_control_messages_frame_the_output(server: OutliveServer) -> None:
    process_id = start(server, "echo one; read line; echo two; exit 7")
    async with viewing(server, process_id) as seen:
        hello = seen.messages[0]
        assert hello == {
            "type": "hello",
            "cursor": "0.0",
            "end": hello["end"],
            "rows": 24,
            "cols": 80,
            "state": "running",
            "process_id": process_id,
            "readonly": False,
            "terminal": True,
        }
        await seen.until_shown(b"one")
        await seen.socket.send(b"\n")
        assert await seen.until_over() == (1000, "exited with 7")
    assert seen.order[0] == "hello"
    assert seen.order[-2:] == ["exited", "closed"]
    end = f"{len(seen.output)}.0"
    assert seen.messages[-2] == {
        "type": "exited",
        "exit_code": 7,
        "signal": None,
        "state": "exited",
        "error": None,
        "cursor": end,
    }
    assert seen.messages[-1] == {"type": "closed", "cursor": end}
    assert bytes(seen.output) == written(server, process_id)


@pytest.mark.promise("T.end")
async def test_an_ended_process_shows_all_of_its_output_and_how_it_ended(server: OutliveServer) -> None:
    process_id = start(server, "seq 1 20000; kill -9 $$")
    async with viewing(server, process_id, cursor=0) as first:
        await first.until_over()
    for controlled in (True, False):
        async with viewing(server, process_id, cursor=0, controlled=controlled) as seen:
            assert await seen.until_over() == (1000, "ended by signal 9")
        assert bytes(seen.output) == written(server, process_id)
        if controlled:
            assert seen.messages[0]["rows"] is None
            assert (seen.messages[-2]["exit_code"], seen.messages[-2]["signal"]) == (None, 9)


@pytest.mark.promise("T.end", "T.control")
async def test_what_still_holds_the_terminal_is_shown_until_it_lets_go(server: OutliveServer) -> None:
    command = "trap '' HUP; (sleep 0.7; echo late) & echo early; exit 0"
    process_id = start(server, command)
    async with viewing(server, process_id) as seen:
        await seen.until_told("exited")
        assert b"early" in seen.output
        assert b"late" not in seen.output
        assert await seen.until_over() == (1000, "exited with 0")
    assert seen.output.endswith(b"late\r\n")
    assert seen.messages[-1]["type"] == "closed"


@pytest.mark.promise("T.names")
async def test_a_process_is_found_by_its_id_its_command_id_and_its_pid(server: OutliveServer) -> None:
    process_id = start(server, "printf here; read line")
    view = Requests(server)("GET", f"/v1/processes/{process_id}").body
    pid = view["pid"]
    async with viewing(server, process_id) as seen:
        await seen.until_shown(b"here")
        async with viewing(server, str(pid)) as by_pid:
            assert by_pid.messages[0]["process_id"] == process_id
        await seen.socket.send(b"\n")
        await seen.until_over()
    with pytest.raises(websockets.InvalidStatus):  # a pid is a name as long as it is the process's
        async with viewing(server, str(pid)):
            pass


@pytest.mark.promise("T.begin")
async def test_a_viewer_begins_with_the_newest_lines(server: OutliveServer) -> None:
    process_id = start(server, "seq 1 100000; read line")
    async with viewing(server, process_id, cursor=0) as whole:
        await whole.until_shown(b"100000\r\n")
    log = written(server, process_id)
    async with viewing(server, process_id) as seen:
        begin = int(seen.messages[0]["cursor"].partition(".")[0])
        await seen.until_shown(b"100000\r\n")
        assert bytes(seen.output) == log[begin:]
        assert log[begin - 1 : begin] == b"\n"
        assert _HISTORY - 100 < len(log) - begin <= _HISTORY
        await seen.socket.send(b"\n")


@pytest.mark.promise("T.begin")
async def test_a_short_history_is_shown_from_its_beginning(server: OutliveServer) -> None:
    process_id = start(server, "printf '\\033[1mbold'; read line")
    async with viewing(server, process_id) as seen:
        await seen.until_shown(b"bold")
        assert seen.messages[0]["cursor"] == "0.0"
        assert bytes(seen.output) == b"\x1b[1mbold"
        await seen.socket.send(b"\n")


@pytest.mark.promise("T.control")
async def test_released_output_is_told_as_a_gap(server: OutliveServer) -> None:
    process_id = start(server, "seq 1 3000000", output_limit=4 << 20)
    Requests(server)("GET", f"/v1/processes/{process_id}/wait?until=closed&timeout=30")
    async with viewing(server, process_id, cursor=0) as seen:
        assert await seen.until_over() == (1000, "exited with 0")
    expected = b"".join(b"%d\r\n" % number for number in range(1, 3_000_001))
    gaps = [one for one in seen.messages if one["type"] == "gap"]
    end = int(seen.messages[-1]["cursor"].partition(".")[0])
    assert gaps
    assert end == len(expected)
    assert len(seen.output) + sum(one["to"] - one["from"] for one in gaps) == end
    assert expected.startswith(bytes(seen.output[: gaps[0]["from"]]))
    async with viewing(server, process_id, cursor=0, controlled=False) as plain:
        await plain.until_over()
    assert expected.endswith(bytes(plain.output[-1000:]))


@pytest.mark.promise("T.control")
async def test_two_streams_are_shown_in_order_and_every_cursor_is_a_place_to_go_on(
    server: OutliveServer,
) -> None:
    """Not only terminals can be watched.

    Who counts bytes could not tell the streams apart, so cursors are told.
    """
    command = "for i in $(seq 200); do echo out $i; echo err $i >&2; done"
    process_id = start(server, command, pty=False, stdin="none")
    async with viewing(server, process_id, cursor=0) as seen:
        assert seen.messages[0]["terminal"] is False
        assert seen.messages[0]["rows"] is None
        await seen.until_over()
    folder = server.state_dir / "processes" / process_id
    out, err = (folder / "out").read_bytes(), (folder / "err").read_bytes()
    assert sorted(seen.output.split(b"\n")) == sorted((out + err).split(b"\n"))
    cursors = [one["cursor"] for one in seen.messages if one["type"] == "cursor"]
    assert cursors[-1] == f"{len(out)}.{len(err)}"
    async with viewing(server, process_id, cursor=cursors[0]) as rest:
        await rest.until_over()
    assert bytes(seen.output).endswith(bytes(rest.output))


@pytest.mark.promise("T.hidden")
async def test_secrets_are_hidden_unless_an_administrator_asks_for_them(server: OutliveServer) -> None:
    secret = (
        b"sk-proj-"
        + hashlib.sha256(os.urandom(9)).hexdigest().encode()
        + b"T3BlbkFJ"
        + b"a1b2c3d4e5f6g7h8i9j0"
    )
    half = len(secret) // 2
    admin = create_token(server, "admin")
    command = f"printf 'key %s' {secret[:half].decode()}; sleep 0.1; printf '%s.' {secret[half:].decode()}"
    process_id = start(server, command, token=admin)
    async with viewing(server, process_id, cursor=0, token=admin) as seen:
        await seen.until_over()
    async with viewing(server, process_id, cursor=0, raw=1, token=admin) as raw:
        await raw.until_over()
    assert bytes(raw.output) == b"key " + secret + b"."
    assert len(seen.output) == len(raw.output)
    assert secret not in seen.output
    assert seen.output.startswith(b"key ")


async def _stty(seen: Seen) -> bytes:
    before = len(seen.output)
    await seen.socket.send(b"size\n")
    await seen.until(lambda: seen.output[before:].count(b"\n") >= 2)
    return bytes(seen.output[before:]).split(b"\r\n")[1]


@pytest.mark.promise("T.control")
async def test_the_terminal_has_the_size_that_a_viewer_gives_it(server: OutliveServer) -> None:
    process_id = start(server, "echo begun; while read line; do stty size; done", rows=30, cols=100)
    async with viewing(server, process_id) as seen:
        assert (seen.messages[0]["rows"], seen.messages[0]["cols"]) == (30, 100)
        await seen.until_shown(b"begun")
        assert await _stty(seen) == b"30 100"
        await seen.say("resize", rows=41, cols=132)
        assert await _stty(seen) == b"41 132"
    async with viewing(server, process_id, rows=50, cols=160) as again:
        assert (again.messages[0]["rows"], again.messages[0]["cols"]) == (50, 160)
        await again.until_shown(b"begun")
        assert await _stty(again) == b"50 160"
        await again.say("eof")
        assert await again.until_over() == (1000, "exited with 0")


@pytest.mark.promise("T.control")
async def test_signals_end_of_file_and_where(server: OutliveServer) -> None:
    process_id = start(
        server, "trap 'echo caught' USR1; echo begun; while ! read line; do :; done; cat; exit 4"
    )
    async with viewing(server, process_id) as seen:
        await seen.until_shown(b"begun")
        await seen.say("where")
        told = await seen.until_told("cursor")
        assert told["cursor"] == f"{len(seen.output)}.0"
        await seen.say("signal", name="USR1")
        await seen.until_shown(b"caught")
        await seen.socket.send(b"go\n")
        await seen.say("eof")  # behind the input before it
        assert await seen.until_over() == (1000, "exited with 4")


@pytest.mark.promise("T.control")
async def test_what_makes_no_sense_is_answered_and_ends_nothing(server: OutliveServer) -> None:
    process_id = start(server, "read line; echo got $line")
    async with viewing(server, process_id) as seen:
        for text in ("{", '{"type":"dance"}', '{"type":"resize","rows":0,"cols":1}'):
            await seen.socket.send(text)
            assert (await seen.until_told("notice"))["reason"] == "invalid_request"
            seen.messages.clear()
        await seen.say("signal", name="NOPE")
        notice = await seen.until_told("notice")
        assert (notice["about"], notice["reason"]) == ("signal", "invalid_params")
        await seen.socket.send(b"well\n")
        await seen.until_over()
    assert b"got well" in seen.output


@pytest.mark.promise("T.control")
async def test_input_that_nobody_can_take_is_told(server: OutliveServer) -> None:
    process_id = start(server, "sleep 1", pty=False, stdin="none")
    async with viewing(server, process_id, rows=10, cols=10) as seen:
        notice = await seen.until_told("notice")
        assert (notice["about"], notice["reason"]) == ("resize", "no_terminal")
        seen.messages.clear()
        await seen.socket.send(b"typed\n")
        notice = await seen.until_told("notice")
        assert (notice["about"], notice["reason"]) == ("input", "stdin_closed")
        await seen.say("resize", rows=1, cols=1)
        await seen.until(lambda: any(one.get("reason") == "no_terminal" for one in seen.messages))


@pytest.mark.promise("T.readonly")
async def test_who_only_looks_can_type_nothing_and_stays(server: OutliveServer, tmp_path: Path) -> None:
    """Dropped without a word where there are no words: xterm.js answers a program's questions whoever
    looks.
    """
    process_id = start(server, f"echo begun; read line; echo got $line > {tmp_path}/got; echo got $line")
    async with (
        viewing(server, process_id, readonly=1, rows=5, cols=5) as told,
        viewing(server, process_id, readonly=1, controlled=False) as silent,
    ):
        assert told.messages[0]["readonly"] is True
        assert (told.messages[0]["rows"], told.messages[0]["cols"]) == (24, 80)
        for seen in (told, silent):
            await seen.until_shown(b"begun")
            await seen.socket.send(b"no\n")
        notice = await told.until_told("notice")
        assert (notice["about"], notice["reason"]) == ("input", "scope_missing")
        for kind, members in (("resize", {"rows": 9, "cols": 9}), ("signal", {"name": 9}), ("eof", {})):
            told.messages.clear()
            await told.say(kind, **members)
            assert (await told.until_told("notice"))["about"] == kind
        await told.say("where")
        await told.until_told("cursor")
        async with viewing(server, process_id) as typing:
            await typing.socket.send(b"yes\n")
            await typing.until_over()
        for seen in (told, silent):
            assert await seen.until_over() == (1000, "exited with 0")
            assert b"got yes" in seen.output
    assert (tmp_path / "got").read_text() == "got yes\n"


@pytest.mark.promise("T.readonly")
async def test_a_token_of_the_scope_read_only_looks(server: OutliveServer) -> None:
    wide = create_token(server, "run", name="narrowed")
    process_id = start(server, "echo begun; read line; echo got $line", token=wide)
    assert run_outlive("token", "revoke", "narrowed", state_dir=server.state_dir).returncode == 0
    narrow = create_token(server, "read", name="narrowed")
    async with viewing(server, process_id, token=narrow) as seen:
        assert seen.messages[0]["readonly"] is True
        await seen.until_shown(b"begun")
        await seen.socket.send(b"typed\n")
        assert (await seen.until_told("notice"))["reason"] == "scope_missing"
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with viewing(server, process_id, token=narrow, raw=1):
                pass
        assert refused.value.response.status_code == 403
    assert b"got" not in written(server, process_id)


@pytest.mark.promise("T.input")
async def test_who_types_and_leaves_has_typed(server: OutliveServer) -> None:
    """Twenty messages and the close in a row: the first ones are still being written when the viewer is
    gone.
    """
    process_id = start(server, "for i in $(seq 20); do read line; echo got $line; done; sleep 1000")
    words = [b"word %d\n" % number for number in range(20)]

    def type_and_leave() -> None:
        peer, _ = open_raw_websocket(server.port, path=f"/ws/terminal/{process_id}")
        with peer:
            for word in words:
                peer.sendall(masked_header(0x2, len(word)) + word)
            peer.sendall(masked_header(0x8, 0))
            assert close_code(peer) == 0  # an empty close frame is answered by one

    await to_thread.run_sync(type_and_leave)
    async with viewing(server, process_id, cursor=0) as seen:
        await seen.until_shown(b"got word 19\r\n")
        await seen.say("signal", name="KILL")
        await seen.until_over()
    assert [line + b"\n" for line in seen.output.split(b"\r\n") if line.startswith(b"got")] == [
        b"got " + word for word in words
    ]


async def test_plain_http_is_told_what_is_needed(server: OutliveServer) -> None:
    answer = await to_thread.run_sync(lambda: Requests(server)("GET", "/ws/terminal/x"))
    assert (answer.status, answer.slug) == (426, "websocket_needed")


@pytest.mark.promise("T.input")
async def test_the_audit_log_tells_who_typed_and_how_much_but_not_what(own_server: OutliveServer) -> None:
    process_id = start(own_server, "read line")
    async with viewing(own_server, process_id, rows=30, cols=90) as seen:
        await seen.socket.send(b"a secret\n")
        await seen.until_over()
    await to_thread.run_sync(own_server.stop)
    shown = run_outlive("audit", "show", "--json", state_dir=own_server.state_dir).stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    told = {one["what"]: one for one in entries if one.get("door") == "terminal"}
    assert set(told) == {"resize", "write"}
    assert told["write"]["process_id"] == process_id
    assert told["write"]["bytes"] == len(b"a secret\n")
    assert "a secret" not in shown
