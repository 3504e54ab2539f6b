"""Schedulers to compare with, each started for a benchmark on loopback: Ray with its jobs, and Slurm with
`srun`.

Each is a context manager that yields how `/bin/true` is run by it, once that has worked; at its end nothing
of it is left. Neither reads nor writes what a Ray or a Slurm of this machine has: folders, ports, key and
configuration are its own.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench import proc
from bench.context import Bench, clean_environment
from bench.measure import Unavailable
from bench.servers import free_port

_RAY = "BENCH_RAY"  # the `ray` program to compare with, where it is neither in PATH nor beside this Python
_SLURM = ("munged", "slurmctld", "slurmd", "srun")
_READY_S = 120  # Ray's dashboard takes half a minute on a busy machine
_END_S = 20
# As little as a controller can do: no accounting, no cgroups, no place for each task; and nothing listens but
# on loopback.
_SLURM_CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/m
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=bench Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True, slots=True)
class ScheduledCommand:
    """How a scheduler is asked to run `/bin/true`, by its own client, which waits for the end."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def run(self) -> bool:
        """Run it; return whether it ended with 0."""
        done = subprocess.run(
            self.words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=_READY_S,
            check=False,
        )
        return done.returncode == 0


@contextmanager
def ray_job(bench: Bench) -> Iterator[ScheduledCommand]:
    """A Ray of one node, and its `ray job submit`.

    Raises:
        Unavailable: There is no Ray, or it does not get ready.
    """
    beside = shutil.which("ray", path=sysconfig.get_path("scripts"))  # by scripts/ray.sh
    program = os.environ.get(_RAY) or beside or shutil.which("ray")
    if program is None:
        raise Unavailable(f"not installed (scripts/ray.sh, or {_RAY} names the program)")
    with bench.folder() as folder:
        ports = {name: free_port() for name in ("port", "dashboard-port", "dashboard-agent-listen-port")}
        words = ["--head", "--block", "--disable-usage-stats", "--num-cpus=2", f"--temp-dir={folder / 'r'}"]
        words += ["--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1", "--include-dashboard=true"]
        words += [f"--{name}={port}" for name, port in ports.items()]
        address = f"http://127.0.0.1:{ports['dashboard-port']}"
        submit = [program, "job", "submit", "--address", address, "--", "/bin/true"]
        command = ScheduledCommand(submit, folder, clean_environment())
        with _daemon([program, "start", *words], folder, clean_environment()) as head:
            try:
                _await_success(command, [head], folder)
            except Unavailable as reason:
                raise Unavailable(f"{reason} (jobs want the packages of ray[default])") from reason
            yield command


@contextmanager
def slurm_step(bench: Bench) -> Iterator[ScheduledCommand]:
    """A Slurm of one node, its controller and its credentials, and its `srun`.

    Raises:
        Unavailable: A program is missing, or Slurm does not get ready.
    """
    # Debian has daemons where only root's PATH leads.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    found = {name: shutil.which(name, path=path) for name in _SLURM}
    programs = {name: program for name, program in found.items() if program is not None}
    missing = [name for name in _SLURM if name not in programs]
    if missing:
        raise Unavailable(
            f"{', '.join(missing)} not installed (Debian: slurmctld, slurmd, slurm-client, munge)"
        )
    with bench.folder() as folder, ExitStack() as stack:
        environment = _configured(folder)
        munged = [programs["munged"], "--foreground", "--force", f"--socket={folder / 'm'}"]
        munged += [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
        daemons = [stack.enter_context(_daemon(munged, folder, environment))]
        _await_path(folder / "m", daemons[0], folder)
        daemons += [
            stack.enter_context(_daemon([programs[name], "-D"], folder, environment))
            for name in ("slurmctld", "slurmd")
        ]
        stack.callback(_await_steps, folder / "spool")
        command = ScheduledCommand([programs["srun"], "-n1", "/bin/true"], folder, environment)
        _await_success(command, daemons, folder)
        yield command


def _configured(folder: Path) -> dict[str, str]:
    """Write a key and a configuration; return the environment that leads to it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "slurm.conf").write_text(
        _SLURM_CONF.format(
            folder=folder,
            host=socket.gethostname().partition(".")[0],  # what both daemons know themselves by
            controller=free_port(),
            node=free_port(),
            user=pwd.getpwuid(os.getuid()).pw_name,
            cpus=os.cpu_count(),
        )
    )
    kept = {
        name: value for name, value in clean_environment().items() if not name.startswith(("SLURM_", "SRUN_"))
    }
    return {**kept, "SLURM_CONF": str(folder / "slurm.conf")}


@contextmanager
def _daemon(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own, so that however it ends, nothing of it is left; `said` has its
    output.
    """
    with (folder / "said").open("ab") as log:
        process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        for pid in proc.in_session(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _await_path(path: Path, daemon: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _END_S
    while not path.exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise _not_ready(folder)
        time.sleep(0.02)


def _await_success(
    command: ScheduledCommand, daemons: Sequence[subprocess.Popen[bytes]], folder: Path
) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and all(one.poll() is None for one in daemons):
        if command.run():
            return
        time.sleep(1)
    raise _not_ready(folder)


def _not_ready(folder: Path) -> Unavailable:
    lines = (folder / "said").read_text(errors="replace").strip().splitlines()
    return Unavailable(f"it did not get ready: {lines[-1] if lines else 'it said nothing'}")


def _await_steps(spool: Path) -> None:
    """Wait until no step runs: the process beside one is no child of the daemon's, and has a socket here
    until it ends.
    """
    deadline = time.monotonic() + _END_S
    while any(one.is_socket() for one in spool.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
