"""The runner's binary for containers and shims: the one in the package, else one compiled here from the package's sources.

Owns the compilers' names and flags, for installations and for `hatch_build.py`, which puts binaries into the wheel; never starts
the runner. Imports the standard library only, so that a build needs nothing else. The C sources are in `native`.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from outlive.core.errors import StartFailed

MACHINES = ("x86_64", "aarch64")
RUNNER_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-Wall", "-Wextra", "-Werror")
# Static, because a container's image may hold another C library, or none. Without a build id, the same sources give the same
# bytes.
_LINK_FLAGS = ("-static", "-s", "-Wl,--build-id=none")
# For a build that cannot carry streams into containers which no socket reaches (`native/main.c`).
_WITHOUT_TUNNEL = "-DOUTLIVE_WITHOUT_TUNNEL"
_SOURCES = Path(__file__).parents[2] / "native"
_COMPILE_S = 600.0  # a full machine needs minutes, zig more for its first C library; a compiler that takes longer hangs
_HINT = "Install a C compiler with a static C library (Debian: gcc libc6-dev, or musl-tools), or a wheel that holds the runner."


def shipped_name(machine: str) -> str:
    """Return the binary's place in the package, relative to `native`."""
    return f"bin/outlive-runner-{machine}"


def runner_sources(*, with_tunnel: bool = True) -> list[Path]:
    """Return the C files, in a fixed order; `main.c` lies in the root of the tree, beside the rooms."""
    found = sorted(_SOURCES.rglob("*.c"))
    return [path for path in found if with_tunnel or path.parent.name != "tunnel"]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of compiled runners.

    Raises:
        RuntimeError: This user has no known home folder.
    """
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "outlive")


def present_runner(machine: str, cache_dir: Path | None) -> Path | None:
    """Return a runner that exists already: the package's, or (with a cache) one compiled earlier from the same sources."""
    if machine not in MACHINES:
        return None
    shipped = _SOURCES / shipped_name(machine)
    if os.access(shipped, os.X_OK):
        return shipped
    if cache_dir is None:
        return None
    cached = compiled_runner(machine, cache_dir)
    return cached if os.access(cached, os.X_OK) else None


def compiled_runner(machine: str, cache_dir: Path) -> Path:
    """Return the path of the runner that these sources compile to; the file need not exist."""
    return cache_dir / _cached_name(machine)


def runner_binary(machine: str, cache_dir: Path) -> Path:
    """Return an executable runner for containers of `machine` ("x86_64" or "aarch64").

    Compiles at most once per version of the sources, also under concurrent callers and processes; may take seconds, so
    never on an event loop. `cache_dir` is made if it is missing.

    Raises:
        StartFailed: docker_unavailable; there is neither a binary nor a compiler that can make one.
    """
    if machine not in MACHINES:
        raise _unavailable(f"There is no runner for containers of the machine {machine!r}.")
    if (present := present_runner(machine, cache_dir)) is not None:
        return present
    shipped = _SOURCES / shipped_name(machine)
    name = _cached_name(machine)
    cached = cache_dir / name
    try:
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(cache_dir / f"{name}.lock"), tempfile.TemporaryDirectory(dir=cache_dir) as folder:
            if not cached.exists():
                made = Path(folder) / name
                if shipped.exists():  # not executable: an installer has dropped that bit
                    shutil.copyfile(shipped, made)
                else:
                    compile_runner(machine, made)
                made.chmod(0o755)
                made.rename(cached)
    except OSError as error:
        raise _unavailable(f"The runner cannot be stored: {error.strerror}.") from error
    return cached


def compile_runner(
    machine: str, target: Path, *, with_tunnel: bool = True, compiler: Sequence[str] = ()
) -> None:
    """Compile the static binary for a machine with the first compiler that can.

    Args:
        machine: One of `MACHINES`.
        target: Where the binary is written.
        with_tunnel: False makes a smaller one, which refuses the tunnel's parts.
        compiler: The words that call the one compiler to use; empty: the installed ones are tried in turn.

    Raises:
        StartFailed: docker_unavailable; there is no compiler, or each has failed.
    """
    said = ""
    tried = []
    flags = RUNNER_FLAGS if with_tunnel else (*RUNNER_FLAGS, _WITHOUT_TUNNEL)
    sources = [str(path) for path in runner_sources(with_tunnel=with_tunnel)]
    choices = [tuple(compiler)] if compiler else [(path,) for path in _compilers(machine)]
    for called in choices:
        tried.append(os.path.basename(called[0]))
        words = [*called, *flags, *_LINK_FLAGS, "-o", str(target), *sources]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMPILE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if not tried:
        raise _unavailable(f"No C compiler is there that makes the runner for {machine} containers.")
    raise _unavailable(
        f"The runner for {machine} containers cannot be compiled ({', '.join(tried)}): {said[:200]}"
    )


def _compilers(machine: str) -> Iterator[str]:
    """Yield the paths of the installed compilers for a machine; musl first, whose binary has a tenth of the size."""
    names = [f"{machine}-linux-musl-gcc", f"{machine}-linux-gnu-gcc"]
    if platform.machine() == machine:
        names = ["musl-gcc", "cc", "gcc", *names]
    for name in names:
        if (found := shutil.which(name)) is not None:
            yield found


def _cached_name(machine: str) -> str:
    return f"outlive-runner-{machine}-{_hash_of_sources()}"


def _hash_of_sources() -> str:
    digest = hashlib.sha256(" ".join((*RUNNER_FLAGS, *_LINK_FLAGS)).encode())
    for path in sorted(_SOURCES.rglob("*.[ch]")):
        name = path.relative_to(_SOURCES).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file. The file is never removed: two processes could then hold locks on two files of the same name."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _unavailable(text: str) -> StartFailed:
    return StartFailed("docker_unavailable", text, hint=_HINT)
