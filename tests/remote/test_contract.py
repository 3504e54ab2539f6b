"""What every backend can do, on a node: the same verbs with the same answers, through two real servers."""

import os
import signal
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, InvalidRequest, InvalidState, Output, StartFailed
from tests.remote.pairs import PATIENCE_S, Pair, output_of, wait_until
from tests.support.processes import descendants, is_alive, is_stopped

FAR = "far"


@pytest.mark.promise("S4.12.nodes")
def test_streams_and_exit_code_are_those_of_the_node(near: Client, far: Client) -> None:
    """Output byte by byte on both streams, the code, and where it ran."""
    process = near.start("printf 'a\\0b\\377'; printf err >&2; exit 7", backend=FAR)
    assert output_of(process) == (b"a\0b\xff", b"err")
    info = process.wait(PATIENCE_S, until="closed")
    assert (info.state, info.exit_code, info.location) == ("exited", 7, {"backend": FAR})
    there = far.get(process.process_id).info()
    assert (there.exit_code, there.pid, there.cursor) == (7, info.pid, info.cursor)


@pytest.mark.promise("S4.12.nodes")
def test_both_servers_tell_the_order_of_the_streams(near: Client) -> None:
    """The recorded order is that of the node: lines that alternate with pauses stay so."""
    line = "for i in 1 2 3 4; do echo o$i; sleep .03; echo e$i >&2; sleep .03; done"
    process = near.start(line, backend=FAR)
    process.wait(PATIENCE_S)
    page = process.read("0")
    told = b"".join(item.data for item in page.items if isinstance(item, Output))
    assert told == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 5))


def test_nothing_of_this_machine_goes_over(pair: Pair, near: Client) -> None:
    """Only what the caller gave: the state folder and the process id are the node's own, the variables are his."""
    process = near.start("env; pwd", backend=FAR, env={"MINE": "1"}, cwd="/usr")
    text = output_of(process)[0].decode()
    assert "MINE=1\n" in text
    assert text.endswith("/usr\n")
    assert f"OUTLIVE_STATE_DIR={pair.far.state_dir}" in text
    assert str(pair.near.state_dir) not in text


def test_words_that_are_no_text_arrive(near: Client) -> None:
    """Bytes of words and variables that are no UTF-8 arrive as they are."""
    odd = os.fsdecode(b"\xff\xfe")
    process = near.start(["printf", "%s-" + odd], backend=FAR)
    assert output_of(process)[0] == b"-\xff\xfe"
    process = near.start('printf %s "$ODD"', backend=FAR, env={"ODD": odd})
    assert output_of(process)[0] == b"\xff\xfe"


def test_input_reaches_it_and_ends(near: Client) -> None:
    """`write` and `close_stdin`."""
    process = near.start("cat; echo over", backend=FAR, stdin="pipe")
    process.write(b"x" * 300_000)
    process.write(b"\n")
    process.close_stdin()
    assert output_of(process)[0] == b"x" * 300_000 + b"\nover\n"


def test_a_terminal_has_its_size_and_is_resized(near: Client) -> None:
    """`pty`, `resize`, and keys."""
    process = near.start(
        "stty size; read line; stty size; test -t 0", backend=FAR, pty=True, rows=30, cols=90
    )
    follow = process.follow()
    assert b"30 90" in next(item.data for item in follow if isinstance(item, Output))
    process.resize(40, 100)
    process.write(b"\r")
    rest = b"".join(item.data for item in follow if isinstance(item, Output))
    assert b"40 100" in rest
    assert process.wait(PATIENCE_S).exit_code == 0


def test_pause_and_resume_hold_the_whole_tree(near: Client) -> None:
    """The states of both servers agree, and the kernel's."""
    process = near.start("sleep 300 & sleep 300; wait", backend=FAR)
    pid = process.pid
    assert pid is not None
    wait_until(lambda: len(descendants(pid)) == 2)
    process.pause()
    assert process.info().state == "paused"
    assert all(is_stopped(one) for one in (pid, *descendants(pid)))
    process.resume()
    assert process.info().state == "running"
    assert not is_stopped(pid)
    process.cancel(0)
    assert process.wait(PATIENCE_S).exit_signal in {signal.SIGTERM, signal.SIGKILL}


def test_a_cancel_ends_the_tree_with_its_grace(near: Client) -> None:
    """TERM first: a trap has its say; then everything is gone."""
    line = "trap 'echo asked; exit 9' TERM; sleep 300 & echo $!; wait"
    process = near.start(line, backend=FAR)
    follow = process.follow()
    child = int(next(item.data for item in follow if isinstance(item, Output)))
    process.cancel(5)
    rest = b"".join(item.data for item in follow if isinstance(item, Output))
    info = process.wait(PATIENCE_S, until="closed")
    assert (rest, info.exit_code, info.cause) == (b"asked\n", 9, "cancel")
    assert not is_alive(child)


def test_signals_and_groups(near: Client) -> None:
    """A signal by name to the main process."""
    process = near.start(["sleep", "300"], backend=FAR)
    process.signal("USR1")
    info = process.wait(PATIENCE_S)
    assert (info.exit_signal, info.cause) == (signal.SIGUSR1, None)
    with pytest.raises(InvalidState):
        process.signal("TERM")


def test_a_timeout_is_the_nodes_and_told_here(near: Client) -> None:
    """`timeout` ends it there; the reason is told in the same words."""
    process = near.start("echo begun; sleep 300", backend=FAR, timeout_s=0.3)
    info = process.wait(PATIENCE_S)
    assert (info.cause, info.error) == ("timeout", "Command timed out after 0.3 seconds")
    assert output_of(process)[0] == b"begun\n"


@pytest.mark.parametrize("words", [["no-such-program-at-all"], ["/etc/passwd"]])
def test_what_cannot_be_started_there_fails_with_the_nodes_reason(near: Client, words: list[str]) -> None:
    """StartFailed, as here."""
    with pytest.raises(StartFailed) as caught:
        near.start(words, backend=FAR)
    assert caught.value.code in {"not_found", "permission_denied"}
    with pytest.raises(StartFailed):
        near.start("true", backend=FAR, cwd="/no/such/folder")


def test_an_unknown_backend_names_those_that_there_are(near: Client) -> None:
    """InvalidRequest with a hint."""
    with pytest.raises(InvalidRequest) as caught:
        near.start("true", backend="nowhere")
    assert "far" in caught.value.hint
    assert "local" in caught.value.hint


def test_a_lent_descriptor_stays_here(near: Client) -> None:
    """It cannot go over."""
    with pytest.raises(InvalidRequest):
        near.start("cat", backend=FAR, stdin="lent")


def test_secrets_go_over_and_are_hidden_on_both_sides(pair: Pair, near: Client) -> None:
    """The value reaches the command, and no file of either server holds it."""
    secret = "correct-horse-battery-" + os.urandom(8).hex()
    process = near.start('printf %s "$KEY" | wc -c; echo "$KEY"', backend=FAR, env_secrets={"KEY": secret})
    shown = output_of(process)[0]
    assert shown.startswith(b"%d\n" % len(secret))
    assert secret.encode() not in shown
    assert process.info().secret_names == ("KEY",)
    process.wait(PATIENCE_S, until="closed")
    spec = Path(pair.near.state_dir, "processes", process.process_id, "spec").read_bytes()
    assert secret.encode() not in spec


def test_a_script_runs_there(near: Client) -> None:
    """Its file lies on the node."""
    process = near.start(["sh", "-e"], script="echo from $0; exit 4", backend=FAR)
    out = output_of(process)[0].decode()
    assert out.startswith("from /")
    assert out.endswith("/script\n")
    assert process.wait(PATIENCE_S).exit_code == 4


def test_a_group_queues_here(near: Client) -> None:
    """The near server's groups bound what runs on nodes, too."""
    group = "g" + os.urandom(4).hex()
    first = near.start("read x", backend=FAR, stdin="pipe", group=group, group_limit=1)
    second = near.start("echo second", backend=FAR, group=group)
    assert second.info().state == "queued"
    first.close_stdin()
    assert output_of(second)[0] == b"second\n"


def test_reading_by_cursor_continues_anywhere(near: Client) -> None:
    """A page from the middle is the rest."""
    process = near.start("seq 1 5000", backend=FAR)
    process.wait(PATIENCE_S)
    whole = b"".join(b"%d\n" % i for i in range(1, 5001))
    rest = bytearray()
    cursor = "1000.0"
    while True:
        page = process.read(cursor)
        rest += b"".join(item.data for item in page.items if isinstance(item, Output))
        cursor = str(page.cursor)
        if not page.has_more:
            break
    assert bytes(rest) == whole[1000:]


def test_what_descendants_write_behind_the_end_is_fetched(near: Client) -> None:
    """The process is complete, its streams are open, and later output comes."""
    process = near.start("(sleep .6; echo late) & echo now", backend=FAR)
    info = process.wait(PATIENCE_S)
    assert info.is_complete
    info = process.wait(PATIENCE_S, until="closed")
    assert info.is_closed
    page = process.read("0")
    assert b"".join(item.data for item in page.items if isinstance(item, Output)) == b"now\nlate\n"
    wait_until(lambda: process.info().descendants == 0)


def test_a_start_repeated_under_its_name_runs_once(near: Client, far: Client, tmp_path: Path) -> None:
    """The same process_id on both sides."""
    marks = tmp_path / "marks"
    process = near.start(f"echo x >> {marks}", backend=FAR)
    process.wait(PATIENCE_S)
    again = near.start(f"echo x >> {marks}", backend=FAR, process_id=process.process_id)
    assert again.process_id == process.process_id
    assert marks.read_text() == "x\n"
    assert far.get(process.process_id).info().process_id == process.process_id


def test_its_tree_is_looked_at_there(near: Client) -> None:
    """`stats`: pids and memory of the node's process."""
    process = near.start("sleep 300 & wait", backend=FAR)
    pid = process.pid
    assert pid is not None
    wait_until(lambda: len(descendants(pid)) == 1)
    stats = process.info(stats=True).stats
    assert stats is not None
    assert pid in stats.pids
    assert stats.memory_bytes > 0
    process.cancel(0)
    process.wait(PATIENCE_S)
    wait_until(lambda: not is_alive(pid))


def test_a_process_that_was_removed_there_is_told_as_lost(near: Client, far: Client) -> None:
    """Nothing invents an exit code."""
    process = near.start("sleep 300", backend=FAR)
    far.remove(process.process_id, force=True)
    info = process.wait(PATIENCE_S)
    assert info.state in {"signaled", "lost"}
    assert info.exit_code is None


def test_block_waits_for_the_near_reader(near: Client) -> None:
    """`on_limit` "block": the process on the node waits until output is released here."""
    line = "yes 0123456789 | head -c 3000000; echo >&2 done"
    process = near.start(line, backend=FAR, on_limit="block", output_limit=1_000_000)
    total = 0
    for item in process.follow():
        if isinstance(item, Output):
            total += len(item.data)
            process.release(item.cursor)
    assert total == 3_000_005
    assert process.wait(PATIENCE_S).exit_code == 0


def test_truncate_keeps_head_and_tail_of_both(near: Client) -> None:
    """`output_limit`: bytes that were released are told as a gap, and offsets stay true."""
    process = near.start("seq 1 400000", backend=FAR, output_limit=200_000)
    info = process.wait(PATIENCE_S)
    whole = b"".join(b"%d\n" % i for i in range(1, 400_001))
    assert info.cursor.stdout == len(whole)
    position = 0
    gaps = 0
    for item in process.follow():
        if isinstance(item, Output):
            assert whole[position : position + len(item.data)] == item.data
        else:
            gaps += item.end - item.start
        position = item.cursor.stdout
    assert gaps > 1_000_000
    assert info.has_gaps or process.info().has_gaps


def test_only_a_node_that_is_there_is_asked(near: Client) -> None:
    """The state of the node is told."""
    assert [one["name"] for one in near.nodes()] == ["far"]
    with pytest.raises((BackendUnavailable, InvalidRequest)):
        near.start("true", backend="local2")
