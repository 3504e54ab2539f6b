"""What a storm has seen, and how it is judged: `Report`, `check_folder`, `check_audit`, `check_logs`,
`leaks`.
"""

import hashlib
import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.plans import Plan
from tests.keeper.house import House
from tests.support.server import OutliveServer, run_outlive


@dataclass(slots=True)
class Report:
    """What a storm saw; `faults` must be empty."""

    processes: int = 0
    bytes: int = 0
    seconds: float = 0.0
    blows: Counter[str] = field(default_factory=Counter)
    profiles: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the summary in one line."""
        profiles = ", ".join(f"{count} {name}" for name, count in sorted(self.profiles.items()))
        blows = ", ".join(f"{count} {name}" for name, count in sorted(self.blows.items()))
        return (
            f"{sum(self.blows.values())} kills ({blows}) in {self.seconds:.1f} s: {self.processes} processes,"
            f" {self.bytes / 1e6:.0f} MB, {len(self.faults)} faults ({profiles})"
        )

    def tell(self) -> int:
        """Print all of it; returns the exit code of a program."""
        print(self)
        for fault in self.faults:
            print("FAULT", fault)
        return 1 if self.faults else 0


def check_folder(house: House, process_id: str, plan: Plan) -> list[str]:
    """Compare a completed process's folder with its plan; returns what is wrong."""
    wrong = []
    done = house.done(process_id)
    for stream in ("out", "err"):
        path = house.folder(process_id) / stream
        size, digest = plan.digest(stream)
        if not path.exists():  # it is made with the first bytes
            path = Path(os.devnull)
        with path.open("rb") as file:
            found = (os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
        if found != (size, digest):
            wrong.append(f"{stream}: {found[0]} bytes, not {size}, or damaged")
        if done[stream] != size:
            wrong.append(f"done says {done[stream]} for {stream}, not {size}")
    record = house.exit_record(process_id)
    code = -record.number if record.kind == "signaled" else record.number
    if record.kind not in {"exited", "signaled"} or code != plan.end:
        wrong.append(f"ended as {record}, not {plan.end}")
    if done.get("holder_lost"):
        wrong.append("its descriptors were held by nobody for a while")
    return [f"{process_id} {plan.kind} {plan.profile.value}: {text}" for text in wrong]


def check_audit(state_dir: Path) -> list[str]:
    """Let the command line check the audit log: a line that a kill has torn is no break, a missing one is."""
    done = run_outlive("audit", "verify", "--json", state_dir=state_dir)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return [f"audit verify: {done.returncode} {done.stdout}{done.stderr}"]
    wrong = [f"audit: {sentence}" for sentence in found["breaks"]]
    if not found["entries"] or found["whole"] != (done.returncode == 0):
        wrong.append(f"audit verify: {done.returncode} {found}")
    return wrong


def check_logs(server: OutliveServer) -> list[str]:
    """Return the tracebacks in what server and keeper have logged, the files before these included."""
    found = {"the server's stderr": server.stderr}
    for path in (*server.state_dir.glob("server.log*"), *server.state_dir.glob("keeper.log*")):
        found[path.name] = path.read_text(errors="replace")
    return [
        f"{name}: {line[:2000]}"
        for name, text in found.items()
        for line in text.splitlines()
        if "Traceback" in line
    ]


def leaks(house: House) -> list[str]:
    """Return descriptors that a keeper with nothing to keep must not have.

    They are closed to an ordinary user, whose storms end with an empty keeper: root's look at them.
    """
    wrong: list[str] = []
    status = house.wait_redundant()
    if os.geteuid() != 0:
        return wrong
    for role in ("supervisor", "guardian"):
        part = status[role]
        assert isinstance(part, dict)
        links = []
        for fd in Path(f"/proc/{part['pid']}/fd").iterdir():
            with suppress(OSError):
                links.append(os.readlink(fd))
        sockets = sum(link.startswith("socket:") for link in links)
        kept = [
            link
            for link in links
            if link.startswith(("/dev/pt", "anon_inode:[pidfd]")) or "/processes/" in link
        ]
        # The supervisor knows each of its clients by a pidfd: the test, and a server where there is one.
        for _ in range(2 if role == "supervisor" else 0):
            if "anon_inode:[pidfd]" in kept:
                kept.remove("anon_inode:[pidfd]")
        pipes = sum(link.startswith("pipe:") for link in links)
        # idle shims, prepared folders, own; each one's wake pipe
        most = {"supervisor": (64 + 256 + 8, 2), "guardian": (3, 2)}[role]
        if kept or sockets > most[0] or pipes > most[1]:
            wrong.append(f"{role} leaks: {sockets} sockets, {pipes} pipes, {kept}")
    return wrong
