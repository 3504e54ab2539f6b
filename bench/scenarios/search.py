"""A text in the output of 500 processes: our search, beside `grep -r` and ripgrep over the same files.

Files are in the page cache ("warm"), or were taken out of it before ("cold"). What grep prints is what was
written, secrets included; ours compares what a caller is shown. The size is chosen by `--search-mb`.
"""

import http.client
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bench.context import Bench
from bench.measure import Section, Unavailable, Verdict, alternate
from bench.peers import log_text
from outlive.policy.redaction import Redactor
from outlive.store.search.log_index import INDEX_FILE, key_of
from tests.attacks.attacking import Requests
from tests.support.processes import cpu_ticks, memory_peak_bytes
from tests.support.server import OutliveServer

_MB = 1_000_000
_EACH_BYTES = 20 * _MB
_FIRST = "s to the first match"
_END = "s to the end"
_PROCESSOR = "s of processor time"
_READ = "MB read"
_TICK_S = 0.01
_COMMON = "a word that is everywhere"
_QUERIES = {  # what is looked for, and whether it is a regular expression
    _COMMON: ("return", False),
    "a text in the oldest output alone": (log_text.RARE, False),
    "nine letters that are nowhere": (log_text.NOWHERE, False),
    "three characters that are nowhere": ("~q^", False),
    "a pattern without a text, nowhere": ("[qz]{4}~[0-9]", True),
    "words that are everywhere, nowhere together": ("import finished return", False),
}
_WITHOUT_INDEX = "nine letters that are nowhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """One search: seconds, and bytes where they are known; `first_s` is None where nothing was found."""

    first_s: float | None
    end_s: float
    processor_s: float
    read_bytes: int | None = None


def run(bench: Bench) -> Section:
    """Six searches by each way, warm and cold, in turns."""
    size = bench.search_mb * _MB if bench.search_mb else bench.pick(10_000 * _MB, 200 * _MB)
    section = Section(
        "search", f"A text in {size // _MB} MB of output in processes of {_EACH_BYTES // _MB} MB"
    )
    with ExitStack() as stack:
        folder = stack.enter_context(bench.folder())
        if shutil.disk_usage(folder).free < 1.3 * size:
            raise Unavailable(f"{size * 1.3 / 1e9:.0f} GB of free disk")
        server = stack.enter_context(OutliveServer(folder / "state"))
        bench.say("search: the output is written")
        _write(server, size)
        processes = server.state_dir / "processes"
        _index(bench, section, server, size)
        programs = {
            "grep -r": ["grep", "-rhE", "--line-buffered"],
            "ripgrep": ["rg", "-uuuIN", "--line-buffered"],
        }
        lanes: dict[str, Callable[[str, bool], _Measured]] = {
            "ours": lambda text, regex: _ours(server, text, regex=regex)
        }
        for label, words in programs.items():
            if shutil.which(words[0]) is None:
                section.notes.append(f"{label} is not installed")
            else:
                lanes[label] = lambda text, regex, words=words: _theirs(words, processes, text, regex=regex)  # type: ignore[misc]
        _search(bench, section, processes, lanes)
        _search_without(bench, section, processes, lanes["ours"])
        peak = memory_peak_bytes(server.pid) / _MB
    section.add("the server's memory, at most", "MB", value=peak)
    section.verdicts.append(Verdict("search_memory", peak))
    section.judge("search_first", f"{_COMMON}: ours, cold", unit=_FIRST)
    section.notes.append("cold: taken out of the page cache before (posix_fadvise), which nothing else reads")
    return section


def _write(server: OutliveServer, size: int) -> None:
    """Have the output written by processes, two at a time; the oldest has a line that is nowhere else."""
    ask = Requests(server)
    waiting: list[str] = []
    for number in range(max(1, size // _EACH_BYTES)):
        command = f"{sys.executable} {log_text.__file__} {number} {_EACH_BYTES}"
        if number == 0:
            command += f"; echo '{log_text.RARE}'"
        waiting.append(ask.start(command)["process_id"])
        if len(waiting) > 2:
            ask("GET", f"/v1/processes/{waiting.pop(0)}/wait?until=closed&timeout=600")
    for one in waiting:
        ask("GET", f"/v1/processes/{one}/wait?until=closed&timeout=600")


def _index(bench: Bench, section: Section, server: OutliveServer, size: int) -> None:
    bench.say("search: indexes are made")
    words = ["-s", "-P", "-m", "outlive.store.search.index_maker", str(server.state_dir)]
    with subprocess.Popen(
        [sys.executable, *words, key_of(Redactor()).hex(), "at-once"], stdin=subprocess.PIPE
    ) as maker:
        _, status, used = os.wait4(maker.pid, 0)
        maker.returncode = os.waitstatus_to_exitcode(status)
    made = sum(one.stat().st_size for one in (server.state_dir / "processes").glob(f"*/{INDEX_FILE}"))
    section.add(
        "making the indexes, a gigabyte", _PROCESSOR, value=(used.ru_utime + used.ru_stime) / size * 1e9
    )
    section.add("the program that makes indexes", "MB", value=used.ru_maxrss / 1000)
    section.add("the indexes", "% of the output", value=100 * made / size)
    section.verdicts.append(Verdict("search_index", 100 * made / size))


def _search(
    bench: Bench, section: Section, processes: Path, lanes: dict[str, Callable[[str, bool], _Measured]]
) -> None:
    for query, (text, regex) in _QUERIES.items():
        for label in alternate([*lanes], bench.pick(5, 2)):
            for state in ("cold", "warm"):
                bench.say(f"search: {query}: {label}, {state}")
                if state == "cold":
                    _forget(processes)
                _note(section, f"{query}: {label}, {state}", lanes[label](text, regex))


def _search_without(
    bench: Bench, section: Section, processes: Path, search: Callable[[str, bool], _Measured]
) -> None:
    """Search once more with the indexes out of the way."""
    for index in processes.glob(f"*/{INDEX_FILE}"):
        index.unlink()
    for _ in range(bench.pick(5, 2)):
        bench.say("search: without indexes")
        _note(section, f"{_WITHOUT_INDEX}: ours without an index, warm", search(*_QUERIES[_WITHOUT_INDEX]))


def _note(section: Section, label: str, found: _Measured) -> None:
    if found.first_s is not None:
        section.add(label, _FIRST, value=found.first_s)
    section.add(label, _END, value=found.end_s)
    section.add(label, _PROCESSOR, value=found.processor_s)
    if found.read_bytes is not None:
        section.add(label, _READ, value=found.read_bytes / _MB)


def _ours(server: OutliveServer, text: str, *, regex: bool) -> _Measured:
    """Search over REST, to the end or to the thousandth match."""
    query = {"text": text, "regex": str(regex).lower(), "limit": 1000}
    ticks, begun = cpu_ticks(server.pid), time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"], timeout=3600)
    connection.request("GET", f"/v1/search?{urlencode(query)}")
    first, read = None, 0
    for line in connection.getresponse():
        found = json.loads(line)
        if "match" in found and first is None:
            first = time.perf_counter() - begun
        read += found.get("searched", {}).get("read_bytes", 0)
    ended = time.perf_counter() - begun
    connection.close()
    return _Measured(
        first_s=first,
        end_s=ended,
        processor_s=(cpu_ticks(server.pid) - ticks) * _TICK_S,
        read_bytes=read,
    )


def _theirs(words: Sequence[str], processes: Path, text: str, *, regex: bool) -> _Measured:
    """Search by a program, to the end or to the thousandth line."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    how = ["-e" if regex else "-Fe", text] if words[0] == "rg" else ["-e", text]
    if words[0] == "grep" and not regex:
        words = ["grep", "-rhF", "--line-buffered"]
    only = ["--glob=out"] if words[0] == "rg" else ["--include=out"]
    first = None
    with subprocess.Popen([*words, *only, *how, str(processes)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        for number, _ in enumerate(program.stdout):
            if number == 0:
                first = time.perf_counter() - begun
            if number == 999:
                program.kill()
                break
    ended = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Measured(first_s=first, end_s=ended, processor_s=used)


def _forget(processes: Path) -> None:
    """Take what lies in the folders out of the page cache."""
    for path in _files(processes):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _files(processes: Path) -> Iterator[Path]:
    for name in ("out", INDEX_FILE):
        yield from processes.glob(f"*/{name}")
