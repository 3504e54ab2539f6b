"""Starting commands: standard streams, terminals, input, large specs, ids, and why a start is refused."""

import os
import stat
from pathlib import Path

import pytest

from outlive.core.identity import id_to_bytes
from outlive.protocols.keeper import MAX_INLINE_BYTES, Phase, encode_spec
from tests.keeper.client import KeeperRefused, until
from tests.keeper.house import House, Options, sh


def test_output_and_exit_code_are_kept_apart_by_stream(house: House) -> None:
    assert house.run(*sh("echo out; echo err >&2; exit 7")) == (7, b"out\n", b"err\n")


def test_merged_output_keeps_the_exact_order_of_writes(house: House) -> None:
    code, out, err = house.run(*sh("for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done"), stdio="merge")
    assert (code, err) == (0, b"")
    assert out == b"".join(b"o%d\ne%d\n" % (n, n) for n in range(1, 6))


def test_a_terminal_is_the_controlling_one_and_has_the_size_asked_for(house: House) -> None:
    code, out, _ = house.run(*sh("tty; stty size </dev/tty"), stdio="pty", rows=33, cols=111)
    assert code == 0
    assert out.startswith(b"/dev/pts/")
    assert out.endswith(b"33 111\r\n")


def test_a_terminal_can_be_resized_and_tells_the_command(house: House) -> None:
    line = "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done"
    process_id = house.start(*sh(line), stdio="pty")
    house.wait_output(process_id, 7)
    house.client.ask("resize", id=process_id, rows=40, cols=132)
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"ready\r\n40 132\r\n"
    assert house.wire_code(process_id) == 4


def test_the_last_bytes_on_a_terminal_are_in_the_log_at_completion(house: House) -> None:
    """They may still be in the kernel's buffers when the command ends."""
    code, out, _ = house.run(*sh("head -c 150000 /dev/zero | tr '\\0' x"), stdio="pty")
    assert (code, len(out)) == (0, 150000)


def test_input_is_empty_unless_asked_for(house: House) -> None:
    assert house.run("/bin/cat") == (0, b"", b"")


def test_input_reaches_the_command_in_order_until_it_is_closed(house: House) -> None:
    process_id = house.start("/bin/cat", stdin="pipe")
    pieces = [b"%d," % number * 1000 for number in range(40)]
    numbers = [house.client.send("write", payload=piece, id=process_id) for piece in pieces]
    for number in numbers:
        assert house.client.reply(number)["ok"]
    house.client.ask("close_stdin", id=process_id)
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"".join(pieces)


def test_input_of_a_terminal_ends_by_the_end_of_file_character(house: House) -> None:
    process_id = house.start("/bin/cat", stdio="pty", stdin="pipe")
    house.client.ask("write", payload=b"typed\n", id=process_id)
    house.wait_output(process_id, 14)
    house.client.ask("close_stdin", id=process_id)
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"typed\r\ntyped\r\n"


_LONG = b"x" * 4095  # n_tty: a buffer of 4096 bytes, one of which ends the line


def test_a_line_that_its_terminal_would_cut_is_refused(house: House) -> None:
    process_id = house.start("/bin/sh", "-c", "stty -echo; echo ready; exec wc -c", stdio="pty", stdin="pipe")
    house.wait_output(process_id, len("ready\r\n"))
    for piece in (_LONG + b"x", b"x\n" + _LONG + b"x\n", _LONG + b"x" + _LONG):
        with pytest.raises(KeeperRefused, match="line_too_long"):
            house.client.ask("write", payload=piece, id=process_id)
    house.client.ask("write", payload=_LONG + b"\n" + _LONG, id=process_id)
    with pytest.raises(KeeperRefused, match="line_too_long"):
        house.client.ask("write", payload=b"x\n", id=process_id)
    house.client.ask("write", payload=b"\n", id=process_id)
    house.client.ask("close_stdin", id=process_id)
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"ready\r\n8192\r\n"


def test_a_program_that_takes_keys_takes_lines_of_any_length(house: House) -> None:
    line = "stty raw -echo; echo ready; exec head -c 20000 | wc -c"
    process_id = house.start("/bin/sh", "-c", line, stdio="pty", stdin="pipe")
    house.wait_output(process_id, len("ready\n"))
    house.client.ask("write", payload=b"x" * 20_000, id=process_id)
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"ready\n20000\n"


def test_writing_without_an_input_is_refused(house: House) -> None:
    process_id = house.start("/bin/sleep", "60")
    with pytest.raises(KeeperRefused, match="stdin_closed"):
        house.client.ask("write", payload=b"x", id=process_id)
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_done(process_id)


def test_input_that_nobody_reads_is_bounded_and_answered_at_the_end(house: House) -> None:
    process_id = house.start("/bin/sleep", "60", stdin="pipe")
    waiting = [house.client.send("write", payload=bytes(65536), id=process_id) for _ in range(80)]
    refused = house.client.reply(waiting[-1])
    assert refused["error"] == "stdin_full"
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_done(process_id)
    errors = {house.client.reply(number).get("error") for number in waiting[:-1]}
    assert errors <= {None, "stdin_closed", "stdin_full"}
    assert "stdin_closed" in errors


def test_a_large_environment_travels_in_a_memory_file(house: House) -> None:
    value = "v" * 100_000
    env = {f"BIG_{number}": value for number in range(5)}
    assert sum(map(len, env.values())) > MAX_INLINE_BYTES
    code, out, _ = house.run(*sh('echo "${#BIG_0} ${#BIG_4}"'), env=env)
    assert (code, out) == (0, b"100000 100000\n")


def test_a_script_of_3_mb_runs_from_its_file(house: House) -> None:
    process_id, _ = house.spec("/bin/sh")
    script = b"# " + b"x" * (3 << 20) + b"\necho ran; exit 12\n"
    path = house.folder(process_id) / "script"
    _, spec = house.spec("/bin/sh", str(path), process_id=process_id)
    house.client.start(spec, process_id=process_id, script=script)
    house.client.wait_done(process_id)
    assert (house.wire_code(process_id), house.out(process_id)) == (12, b"ran\n")
    assert path.read_bytes() == script
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_the_same_id_twice_starts_once(house: House, tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    process_id, spec = house.spec(*sh(f"echo x >> {counter}; sleep 60"))
    _, first = house.client.start(spec, process_id=process_id)
    _, second = house.client.start(spec, process_id=process_id)
    assert second["existing"]
    until(lambda: counter.exists() and counter.read_text(), "the command to run")
    assert (second["pid"], second["started_ns"]) == (first["pid"], first["started_ns"])
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    house.client.wait_closed(process_id)
    until(lambda: house.status()["processes"] == 0, "the keeper to let go")
    _, third = house.client.start(spec, process_id=process_id)
    assert third["existing"]
    assert third["pid"] == first["pid"]
    assert counter.read_text() == "x\n"


def test_two_requests_with_one_id_before_the_answer_start_once(house: House, tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    process_id, spec = house.spec(*sh(f"echo x >> {counter}"))
    raw = encode_spec(spec)
    numbers = [house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw)) for _ in range(5)]
    pids = {house.client.reply(number)["pid"] for number in numbers}
    until(lambda: counter.exists() and counter.read_text(), "the command to run")
    assert len(pids) == 1
    assert counter.read_text() == "x\n"


@pytest.mark.parametrize(
    ("argv", "options", "slug"),
    [
        (("/bin/true",), {"cwd": "/nonexistent"}, "cwd_missing"),
        (("/bin/true",), {"cwd": "/etc/passwd"}, "cwd_missing"),
        (("/nonexistent/program",), {}, "not_found"),
        (("/etc/passwd",), {}, "permission_denied"),
        (("/bin/true", "x" * 200_000), {}, "argument_too_long"),
    ],
    ids=["no-folder", "a-file-as-folder", "no-program", "not-executable", "long-argument"],
)
def test_a_start_that_cannot_be_is_refused_and_recorded(
    house: House, argv: tuple[str, ...], options: Options, slug: str
) -> None:
    process_id, spec = house.spec(*argv, **options)
    with pytest.raises(KeeperRefused, match=slug):
        house.client.start(spec, process_id=process_id)
    record = until(lambda: house.exit_record(process_id), "the exit record")
    assert record.kind == "failed"
    assert house.client.wait_done(process_id).phase == Phase.DONE
    # Asked again, the answer is the same: the id is known.
    with pytest.raises(KeeperRefused, match=slug):
        house.client.start(spec, process_id=process_id)


def test_a_folder_that_cannot_be_entered_is_named(house: House) -> None:
    """Between the server's look and the start it may be gone.

    And a caller with a default folder has named none.
    """
    process_id, spec = house.spec("/bin/true", cwd="/nonexistent")
    for _ in range(2):  # the second time from what is on disk
        with pytest.raises(
            KeeperRefused, match="The working folder '/nonexistent' cannot be entered: No such file"
        ):
            house.client.start(spec, process_id=process_id)
        until(lambda: house.exit_record(process_id), "the exit record")
        assert house.client.wait_done(process_id).phase == Phase.DONE


def test_a_request_that_makes_no_sense_is_refused(house: House) -> None:
    for fields in (
        {"op": "start", "id": "nonsense", "spec_bytes": 0},
        {"op": "signal", "id": "0"},
        {"op": "no"},
    ):
        op = str(fields.pop("op"))
        with pytest.raises(KeeperRefused, match="invalid_params"):
            house.client.ask(op, **fields)


def test_a_command_leads_its_own_posix_session_and_inherits_nothing(house: House) -> None:
    line = "ls /proc/self/fd; ps -o sid=,pgid=,pid= -p $$ | tr -s ' '"
    code, out, _ = house.run(*sh(line))
    assert code == 0
    lines = out.split()
    assert lines[:-3] == [b"0", b"1", b"2", b"3"]  # 3 is the folder that ls reads
    assert len(set(lines[-3:])) == 1


def test_a_command_gets_the_environment_of_its_spec_and_nothing_else(house: House) -> None:
    process_id, spec = house.spec("/usr/bin/env", env={"ONLY": "this ü"})
    house.client.start(spec, process_id=process_id)
    house.client.wait_done(process_id)
    names = {line.split(b"=")[0] for line in house.out(process_id).splitlines()}
    assert names == {b"PATH", b"OUTLIVE_PROCESS_ID", b"OUTLIVE_STATE_DIR", b"ONLY"}
    assert "ONLY=this ü\n".encode() in house.out(process_id)


def test_what_python_ignores_is_not_ignored_by_a_command(house: House) -> None:
    code, out, _ = house.run(*sh("grep -E '^Sig(Ign|Blk)' /proc/self/status"))
    assert code == 0
    of_the_c_library = 1 << 31 | 1 << 32  # posix_spawn(3) of glibc ignores its internal signals 32 and 33
    assert {int(line.split()[1], 16) & ~of_the_c_library for line in out.splitlines()} == {0}


def test_many_starts_at_once_all_run(house: House) -> None:
    waiting = []
    for number in range(60):
        process_id, spec = house.spec(*sh(f"echo {number}; exit {number}"))
        raw = encode_spec(spec)
        waiting.append(
            (process_id, house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw)))
        )
    for number, (process_id, request) in enumerate(waiting):
        assert house.client.reply(request)["ok"]
        house.client.wait_done(process_id)
        assert (house.wire_code(process_id), house.out(process_id)) == (number, b"%d\n" % number)
        assert house.client.completions[id_to_bytes(process_id)] == 1


def test_a_state_folder_with_a_long_path_works(tmp_path: Path) -> None:
    """Longer than a Unix socket's address may be (108 bytes, unix(7))."""
    state_dir = tmp_path / ("d" * 90) / ("e" * 90)
    assert len(os.fsencode(state_dir)) > 150
    with House(state_dir) as own:
        assert own.run(*sh("echo far away; exit 5")) == (5, b"far away\n", b"")
        own.kill(own.supervisor())
        assert own.run(*sh("echo again"))[1] == b"again\n"
