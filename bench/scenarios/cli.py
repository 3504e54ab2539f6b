"""The command line: how long a person waits for help, a list, and for lines of a gigabyte of output."""

import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.context import Bench, clean_environment
from bench.measure import Section, Unavailable, alternate
from bench.product import Installation, outlive_installed
from outlive.client import Client

_PYTHON = "python -c pass"
_HELP = "outlive --help"
_PS = "outlive ps"
_TAIL = "logs --tail 100"
_FIRST = "logs --grep, in the first line"
_LAST = "logs --grep, in the last line"
_LINE = "0123456789" * 7 + "012345678"  # 80 bytes with its newline
_PATIENCE_S = 120
_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class _Lane:
    label: str
    words: tuple[str, ...]
    is_first_line: bool = False  # what counts is when it came, not the end


def run(bench: Bench) -> Section:
    """Seconds from the call to the end, or to the first line that was looked for; megabytes at the most."""
    size = bench.pick(1_000_000_000, 200_000_000)
    section = Section("cli", f"the command line, on a log of {size // 1_000_000} MB", baseline=_PYTHON)
    try:
        with outlive_installed(bench) as installation:
            lanes = _lanes(installation, _write_log(installation, size))
            for lane in lanes:
                _measure(lane, installation)  # compiled files and pages in memory for everybody
            for lane in alternate(lanes, bench.pick(15, 5)):
                bench.say(f"cli: {lane.label}")
                seconds, peak_mb = _measure(lane, installation)
                section.add(lane.label, "s", value=seconds)
                section.add(lane.label, "MB at the most", value=peak_mb)
    except Unavailable as reason:
        section.notes.append(f"ours left out: {reason}")
    section.judge("cli_help", _HELP, unit="s", against=_PYTHON)
    section.judge("cli_ps", _PS, unit="s", against=_PYTHON)
    section.judge("cli_tail", _TAIL, unit="s")
    section.judge("cli_grep_first", _FIRST, unit="s")
    section.judge("cli_grep_last", _LAST, unit="s")
    section.judge("cli_grep_memory", _LAST, unit="MB at the most")
    section.notes.append("--grep: until its first line is there; the memory is that of the whole search")
    return section


def _write_log(installation: Installation, size: int) -> str:
    with Client(installation.state_dir, start_server=False) as client:
        command = f"echo first needle; yes {_LINE} | head -c {size}; echo last needle"
        process = client.start(command)
        process.wait(_PATIENCE_S)
        return process.process_id


def _lanes(installation: Installation, process_id: str) -> list[_Lane]:
    def ours(*words: str) -> tuple[str, ...]:
        return (*installation.command, *words, "--state-dir", str(installation.state_dir))

    return [
        _Lane(_PYTHON, (sys.executable, "-c", "pass")),
        _Lane(_HELP, (*installation.command, "--help")),
        _Lane(_PS, ours("ps")),
        _Lane(_TAIL, ours("logs", "--tail", "100", process_id)),
        _Lane(_FIRST, ours("logs", "--grep", "first needle", process_id), is_first_line=True),
        _Lane(_LAST, ours("logs", "--grep", "last needle", process_id), is_first_line=True),
    ]


def _measure(lane: _Lane, installation: Installation) -> tuple[float, float]:
    """Return the seconds and the most memory of one call."""
    began = time.monotonic()
    process = subprocess.Popen(
        lane.words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=clean_environment(),
        cwd=installation.state_dir.parent,
    )
    assert process.stdout is not None
    descriptor, said, peak_kb = process.stdout.fileno(), b"", 0
    first_s = 0.0
    while True:
        while not select.select([descriptor], [], [], _LOOK_S)[0]:
            peak_kb = max(peak_kb, _peak_kb(process.pid))
        peak_kb = max(peak_kb, _peak_kb(process.pid))
        data = os.read(descriptor, 65536)
        if not data:
            break
        first_s = first_s or time.monotonic() - began
        said += data
    code = process.wait(_PATIENCE_S)
    whole_s = time.monotonic() - began
    process.stdout.close()
    if code or (lane.is_first_line and b"needle" not in said):
        raise RuntimeError(f"{lane.label} ended with {code}: {said[:200]!r}")
    return (first_s if lane.is_first_line else whole_s), peak_kb / 1024


def _peak_kb(pid: int) -> int:
    """Return the most memory so far; of a process that has just ended 0.

    Not from the resource usage at its end: that counts what this program had when it started it
    (getrusage(2)).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
