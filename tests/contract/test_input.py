"""Input: pipes in pieces, their end, and terminals."""

import hashlib
import os
import signal

from outlive.client import Follow, Output
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until


def test_input_arrives_in_pieces_and_ends(asker: Asker) -> None:
    """Pieces of 64 KB, then the end of the file."""
    piece = bytes(range(256)) * 256
    process = asker.start("cat; echo over", stdin="pipe")
    for _ in range(12):
        process.write(piece)
    process.close_stdin()
    assert output_of(process) == (piece * 12 + b"over\n", b"")


def test_every_size_of_input_arrives_whole(asker: Asker) -> None:
    """Around what goes in one frame, to a node too, and what a pipe holds."""
    sizes = (1, 16_384, 65_536, 65_537, 262_143, 262_144, 262_145, 1_048_576, 1_048_577, 2_500_000)
    parts = [os.urandom(size) for size in sizes]
    process = asker.start("sha256sum", stdin="pipe")
    for part in parts:
        process.write(part)
    process.close_stdin()
    assert output_of(process)[0].split()[0].decode() == hashlib.sha256(b"".join(parts)).hexdigest()


def test_a_command_without_input_reads_its_end_at_once(asker: Asker) -> None:
    """`stdin` "none"."""
    assert output_of(asker.start("cat; echo over")) == (b"over\n", b"")


def test_a_terminal_has_a_name_a_size_and_a_type(asker: Asker) -> None:
    """`pty`: all three descriptors are one terminal, which has the size that was asked for."""
    line = "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM; echo err >&2"
    out, err = output_of(asker.start(line, pty=True, rows=30, cols=90))
    words = out.split(b"\r\n")
    assert words[0].startswith(b"/dev/pts/")
    assert words[1:] == [b"30 90", b"all", b"xterm-256color", b"err", b""]
    assert err == b""


def _until(follow: Follow, wanted: bytes) -> bytes:
    """Read on until the output holds `wanted`."""
    seen = b""
    while wanted not in seen:
        item = next(follow)
        assert isinstance(item, Output)
        seen += item.data
    return seen


def test_a_terminal_is_resized_and_its_program_is_told(asker: Asker) -> None:
    """SIGWINCH comes with the new size."""
    line = "trap 'stty size' WINCH; echo ready; while ! read -t 0.05 line; do :; done; echo bye"
    process = asker.start(["bash", "-c", line], pty=True, rows=30, cols=90)
    follow = process.follow()
    _until(follow, b"ready")
    process.resize(40, 100)
    _until(follow, b"40 100")
    process.write(b"\r")
    _until(follow, b"bye")
    assert process.wait(PATIENCE_S).exit_code == 0


def test_ctrl_c_interrupts_what_is_in_the_foreground(asker: Asker) -> None:
    """The terminal turns the key into SIGINT."""
    process = asker.start("echo ready; sleep 300", pty=True)
    follow = process.follow()
    _until(follow, b"ready")
    process.write(b"\x03")
    info = process.wait(PATIENCE_S)
    assert info.exit_signal == signal.SIGINT
    assert b"^C" in b"".join(item.data for item in follow if isinstance(item, Output))


def test_a_terminal_asks_for_a_password_without_echo(asker: Asker) -> None:
    """What is typed is not shown; the command has it."""
    process = asker.start(
        "printf 'Password: '; stty -echo; read word; stty echo; echo; echo ${#word}", pty=True
    )
    follow = process.follow()
    _until(follow, b"Password: ")
    wait_until(lambda: (stats := process.info(stats=True).stats) is not None and stats.waiting == "password")
    process.write(b"hunter22\r")
    rest = b"".join(item.data for item in follow if isinstance(item, Output))
    assert rest.split() == [b"8"]


def test_a_program_with_a_full_screen_runs(asker: Asker) -> None:
    """Ctrl-D ends a shell on a terminal."""
    process = asker.start(["sh", "-i"], pty=True)
    follow = process.follow()
    process.write(b"echo a$((1+1))b; exit 3\r")
    assert b"a2b" in b"".join(item.data for item in follow if isinstance(item, Output))
    assert process.wait(PATIENCE_S).exit_code == 3
