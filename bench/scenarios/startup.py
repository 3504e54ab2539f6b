"""Starting the server: from its spawn to the greeting that a client receives."""

import subprocess
import sys
import time
from pathlib import Path

from bench.context import Bench, peer_environment
from bench.measure import Section, Unavailable, alternate
from bench.product import PATH, find_installation
from bench.servers import free_port
from bench.wire import await_greeting


def run(bench: Bench) -> Section:
    """Seconds until a client that keeps dialling is greeted; ours with and without a keeper running."""
    section = Section("startup", "start of the server to the first greeting", baseline="naive")
    lanes = ["naive", "ours"]
    try:
        find_installation(bench.scratch)
    except Unavailable as reason:
        section.notes.append(f"ours left out: {reason}")
        lanes.remove("ours")
    for lane in alternate(lanes, bench.pick(7, 2)):
        bench.say(f"startup: {lane}")
        if lane == "naive":
            section.add("naive", "s", value=_time_naive())
        else:
            with bench.folder() as folder:
                _time_ours(section, folder)
    section.judge("listening", "ours, keeper not running", unit="s")
    return section


def _time_naive() -> float:
    port = free_port()
    began = time.monotonic()
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.peers.naive", str(port)],
        stdout=subprocess.DEVNULL,
        text=True,
        env=peer_environment(),
    )
    try:
        await_greeting(server, port, path="/")
        return time.monotonic() - began
    finally:
        server.kill()
        server.wait()


def _time_ours(section: Section, folder: Path) -> None:
    installation = find_installation(folder / "s")
    installation.state_dir.mkdir(mode=0o700)
    for label in ("ours, keeper not running", "ours, keeper running"):
        port = free_port()
        began = time.monotonic()
        server = installation.spawn(
            "--jsonrpc-port", str(port), "--mcp-port", "0", "--rest-port", "0", "--bridge-port", "0"
        )
        is_last = label == "ours, keeper running"
        try:
            await_greeting(server, port, path=PATH)
            section.add(label, "s", value=time.monotonic() - began)
        finally:
            if is_last:
                installation.stop(server)
            else:
                installation.stop_server(server)
