"""The first minute: what `outlive run -- echo hi` costs on an account that has never run it, in all processes
together.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from bench import proc
from bench.context import Bench, clean_environment
from bench.measure import Section, Unavailable, alternate
from bench.product import Installation, find_installation
from outlive.kernel.calls import become_subreaper

_SCALE = "python -c 'import asyncio'"  # how busy the machine is shows in it
_OURS = "ours"
_END_S = 10.0


def run(bench: Bench) -> Section:
    """Milliseconds of processor time: client, start of the server and of the keeper, shims and the command
    itself.

    With bytecode, as pip and `make setup` install.
    """
    section = Section(
        "first", "the first `outlive run -- echo hi`: processor time of all processes", baseline=_SCALE
    )
    lanes = [_SCALE, _OURS]
    try:
        find_installation(bench.scratch)
    except Unavailable as reason:
        section.notes.append(f"ours left out: {reason}")
        lanes = [_SCALE]
    become_subreaper()  # what the client leaves behind is ours then, and so is its time
    for lane in alternate(lanes, bench.pick(5, 2)):
        bench.say(f"first: {lane}")
        with bench.folder() as folder:
            section.add(lane, "ms", value=_measured_ms(lane, folder))
    section.judge("first_run", _OURS, unit="ms")
    return section


def _measured_ms(lane: str, folder: Path) -> float:
    before = _ended_s()
    if lane == _SCALE:
        words = [sys.executable, "-I", "-c", "import asyncio"]
        subprocess.run(words, check=True, env=clean_environment())
        return (_ended_s() - before) * 1000
    installation = find_installation(folder / "s")
    others = proc.descendants(os.getpid())
    installation.run("echo", "hi")
    _reap()
    started = proc.descendants(os.getpid()) - others
    spent_s = _ended_s() - before + sum(map(proc.tree_cpu_s, started))
    _end(installation, started)
    return spent_s * 1000


def _ended_s() -> float:
    """Return the processor time of all descendants that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _end(installation: Installation, started: set[int]) -> None:
    """End server and keeper, and wait until nothing of them is left: the next lane's time is its own."""
    pid = json.loads((installation.state_dir / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGTERM)
    installation.keeper("stop", "--kill")
    until = time.monotonic() + _END_S
    while started & proc.descendants(os.getpid()) and time.monotonic() < until:
        _reap()
        time.sleep(0.02)
