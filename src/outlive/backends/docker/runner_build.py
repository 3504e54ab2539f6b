"""The runner's binary for a container, and for shims: the one that was shipped, else one compiled here from the shipped sources.

Owns the compilers' names and flags, for installations and for `hatch_build.py`, which puts binaries into the wheel;
never starts the runner. Standard library only, so that a build needs nothing else.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from outlive.core.errors import StartFailed

MACHINES = ("x86_64", "aarch64")
RUNNER_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-Wall", "-Wextra", "-Werror")
# Static: the container's image may hold another C library, or none. Without build id: the same bytes from the same sources.
_LINK_FLAGS = ("-static", "-s", "-Wl,--build-id=none")
# For a build that cannot carry streams into containers which no socket reaches (`native/main.c`).
_WITHOUT_TUNNEL = "-DOUTLIVE_WITHOUT_TUNNEL"
_SOURCES = Path(__file__).parents[2] / "native"
_COMPILE_S = 120.0
_HINT = "Install a C compiler with a static C library (Debian: gcc libc6-dev, or musl-tools), or a wheel that holds the runner."


def shipped_name(machine: str) -> str:
    """Return the binary's place in the package, relative to `native`."""
    return f"bin/outlive-runner-{machine}"


def runner_sources(*, with_tunnel: bool = True) -> list[Path]:
    """Return the C files, in a fixed order; `main.c` lies in the root of the tree, beside the rooms."""
    found = sorted(_SOURCES.rglob("*.c"))
    return [path for path in found if with_tunnel or path.parent.name != "tunnel"]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where compiled runners are kept.

    Raises:
        RuntimeError: Nobody knows our home folder.
    """
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "outlive")


def present_runner(machine: str, cache_dir: Path | None) -> Path | None:
    """Return a runner that is there already, shipped or (with a cache) compiled earlier from these very sources."""
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
    """Return where the runner of these sources lies once it was compiled; it need not be there."""
    return cache_dir / _cached_name(machine)


def runner_binary(machine: str, cache_dir: Path) -> Path:
    """Return an executable runner for containers of `machine` ("x86_64" or "aarch64").

    Compiles at most once per version of the sources, also under concurrent callers and processes; may take seconds, so
    never on an event loop. `cache_dir` is made if it is missing.

    Raises:
        StartFailed: docker_unavailable; neither is a binary there nor a compiler that makes one.
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
                if shipped.exists():  # an installer has dropped the bit that makes it executable
                    shutil.copyfile(shipped, made)
                else:
                    compile_runner(machine, made)
                made.chmod(0o755)
                made.rename(cached)
    except OSError as error:
        raise _unavailable(f"The runner cannot be stored: {error.strerror}.") from error
    return cached


def compile_runner(machine: str, target: Path, *, with_tunnel: bool = True) -> None:
    """Compile the static binary for a machine with the first compiler that can.

    Args:
        machine: One of `MACHINES`.
        target: Where the binary is written.
        with_tunnel: False makes a smaller one, which refuses the tunnel's parts.

    Raises:
        StartFailed: docker_unavailable; no compiler is there, or none of them made it.
    """
    said = ""
    tried = []
    flags = RUNNER_FLAGS if with_tunnel else (*RUNNER_FLAGS, _WITHOUT_TUNNEL)
    sources = [str(path) for path in runner_sources(with_tunnel=with_tunnel)]
    for compiler in _compilers(machine):
        tried.append(os.path.basename(compiler))
        words = [compiler, *flags, *_LINK_FLAGS, "-o", str(target), *sources]
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
    """Yield the paths of compilers for a machine that are installed; musl first: a tenth of the size."""
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
    """Hold a file that others wait for; it stays, since removing it would let two in."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _unavailable(text: str) -> StartFailed:
    return StartFailed("docker_unavailable", text, hint=_HINT)
