"""Input through our client beside a pipe: the same reader, written to as a Python program writes."""

import os
import subprocess
import time

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive_installed
from outlive.client import Client

_UNIT = "MiB/s"
_MIB = 1024 * 1024
_PIPE = "pipe"
_READERS = ("sha256sum", "wc -c")
_PIECES = {"64 KiB": 64 * 1024, "1 MiB": _MIB}


def run(bench: Bench) -> Section:
    """From the start of a reader to its end: `Popen.stdin.write` of 64 KiB, and `Process.write` of 64 KiB and
    of 1 MiB.

    To a pipe it makes no difference how much is written at once. The judge is a reader that does something
    with what it reads; `wc -c` throws it away, and shows what a byte costs on the way.
    """
    size = bench.pick(128, 32) * _MIB
    section = Section("stdin", f"{size // _MIB} MiB of input", baseline=f"{_PIPE}, {_READERS[0]}")
    with outlive_installed(bench) as installation, Client(installation.state_dir) as client:
        lanes = [_PIPE, *_PIECES]
        _write(client, _READERS[0], piece=_MIB, size=_MIB)
        for lane in alternate(lanes, bench.pick(5, 2)):
            for reader in _READERS:
                bench.say(f"stdin: {lane}, {reader}")
                bench.settle()
                begun = time.monotonic()
                if lane == _PIPE:
                    _write_to_pipe(reader, piece=_PIECES["64 KiB"], size=size)
                else:
                    _write(client, reader, piece=_PIECES[lane], size=size)
                rate = size / _MIB / (time.monotonic() - begun)
                label = f"{_PIPE}, {reader}" if lane == _PIPE else f"ours, {lane}, {reader}"
                section.add(label, _UNIT, value=rate)
    base = f"{_PIPE}, {_READERS[0]}"
    for key, piece in (("stdin_64k", "64 KiB"), ("stdin_1m", "1 MiB")):
        section.judge(key, f"ours, {piece}, {_READERS[0]}", unit=_UNIT, against=base)
    return section


def _write_to_pipe(reader: str, *, piece: int, size: int) -> None:
    block = os.urandom(piece)
    with subprocess.Popen(["sh", "-c", reader], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        for _ in range(size // piece):
            process.stdin.write(block)
        process.stdin.close()


def _write(client: Client, reader: str, *, piece: int, size: int) -> None:
    block = os.urandom(piece)
    process = client.start(["sh", "-c", reader], stdin="pipe", detach=True)
    for _ in range(size // piece):
        process.write(block)
    process.close_stdin()
    if process.wait().exit_code != 0:
        raise RuntimeError(f"{reader} failed")
