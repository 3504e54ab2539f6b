"""The program for containers and shims: the one in the package, else one compiled into the package from its
sources.

The user's cache would be a place that a command may be allowed to write to; the package is not (decision
220).

Owns the compilers' names and flags, for installations and for `hatch_build.py`, which puts binaries into the
wheel; never starts the runner. Imports the standard library only, so that a build needs nothing else. The C
sources are in `native`.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from outlive.core.errors import StartFailed
from outlive.core.layout import LIBRARY_MARK

MACHINES = ("x86_64", "aarch64")  # wheels and containers have a program for these
RUNNER_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Os", "-Wall", "-Wextra", "-Werror")
# Static, because a container's image may hold another C library, or none. Without a build id, the same
# sources give the same bytes.
_LINK_FLAGS = ("-static", "-s", "-Wl,--build-id=none")
# Of the library that the supervisor loads, which lies behind the program in the same file. It is linked with
# no C library, so that the one that Python runs on serves it.
LIBRARY_FLAGS = ("-O2", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector")
_LIBRARY_LINK_FLAGS = ("-shared", "-nostdlib", "-s", "-Wl,--build-id=none")
_SOURCES = Path(__file__).parents[1] / "native"
LIBRARY_SOURCES = (_SOURCES / "flow" / "flow.c", _SOURCES / "flow" / "move.c")
_BIN = _SOURCES / "bin"  # where a wheel has its programs
# a full machine needs minutes, zig more for its first C library; a compiler that takes longer hangs
_COMPILE_S = 600.0
# Clang warns about a comparison in musl's own macro CMSG_NXTHDR; every other warning stays an error.
_ZIG_FLAGS = ("-Wno-error=sign-compare",)
HINT = (
    "Install a C compiler with a static C library (Debian: gcc libc6-dev, or musl-tools), the package "
    "ziglang from PyPI beside outlive, or a wheel that holds the program (x86_64 and aarch64 have one)."
)


def shipped_name(machine: str) -> str:
    """Return the binary's place in the package, relative to `native`."""
    return f"bin/outlive-runner-{machine}"


def is_possible(machine: str) -> bool:
    """Tell whether there may be a program for a machine: on any other one than `MACHINES` only its own."""
    return machine in MACHINES or machine == os.uname().machine


def runner_sources() -> list[Path]:
    """Return the program's C files, in a fixed order; `main.c` lies beside the rooms."""
    return sorted(path for path in _SOURCES.rglob("*.c") if path not in LIBRARY_SOURCES)


def present_runner(machine: str, spare: Path) -> Path | None:
    """Return a runner that exists already: the package's, or one that was compiled from the same sources."""
    if not is_possible(machine):
        return None
    shipped = _SOURCES / shipped_name(machine)
    if os.access(shipped, os.X_OK):
        return shipped
    name = compiled_runner(machine, spare).name
    return next((place / name for place in (_BIN, spare) if os.access(place / name, os.X_OK)), None)


def compiled_runner(machine: str, folder: Path) -> Path:
    """Return the path of the runner that these sources compile to; the file need not exist."""
    return folder / f"outlive-runner-{machine}-{_hash_of_sources()}"


def runner_binary(machine: str, spare: Path) -> Path:
    """Return an executable runner for a machine.

    Compiles at most once per version of the sources, also under concurrent callers and processes; may take
    seconds, so never on an event loop.

    Args:
        machine: One of `MACHINES`, or this one.
        spare: The folder of compiled runners for a user that may not write into the package; made if it is
            missing.

    Raises:
        StartFailed: docker_unavailable; there is neither a binary nor a compiler that can make one.
    """
    if not is_possible(machine):
        raise _unavailable(f"There is no program of outlive for the machine {machine!r}.")
    if (present := present_runner(machine, spare)) is not None:
        return present
    shipped, place = _SOURCES / shipped_name(machine), _BIN if os.access(_SOURCES, os.W_OK) else spare
    compiled = compiled_runner(machine, place)
    try:
        place.mkdir(mode=0o755, exist_ok=True)
        with _lock(place / f"{compiled.name}.lock"), tempfile.TemporaryDirectory(dir=place) as folder:
            if not compiled.exists():
                made = Path(folder) / compiled.name
                if shipped.exists():  # not executable: an installer has dropped that bit
                    shutil.copyfile(shipped, made)
                else:
                    compile_runner(machine, made)
                made.chmod(0o755)
                made.rename(compiled)
    except OSError as error:
        raise _unavailable(f"Outlive's program cannot be stored: {error.strerror}.") from error
    return compiled


def compile_runner(machine: str, target: Path, *, compiler: Sequence[str] = ()) -> None:
    """Compile the static binary for a machine with the first compiler that can.

    Args:
        machine: One of `MACHINES`, or this one.
        target: Where the binary is written.
        compiler: The words that call the one compiler to use; empty: the installed ones are tried in turn.

    Raises:
        StartFailed: docker_unavailable; there is no compiler, or each has failed.
    """
    said = ""
    tried = []
    choices = [tuple(compiler)] if compiler else list(_compilers(machine))
    for called in choices:
        tried.append(os.path.basename(called[0]))
        try:
            _compile(called, target)
        except subprocess.CalledProcessError as error:
            said = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        else:
            return
    if not tried:
        raise _unavailable(f"There is no C compiler that makes outlive's program for {machine}.")
    raise _unavailable(
        f"Outlive's program for {machine} cannot be compiled ({', '.join(tried)}): {said[:200]}"
    )


def _compile(compiler: Sequence[str], target: Path) -> None:
    """Make the program, and put the library behind it.

    Raises:
        OSError, subprocess.SubprocessError: The compiler cannot, or says why it does not.
    """
    library, compiled = f"{target}.so", [f"{target}.{source.name}.o" for source in LIBRARY_SOURCES]
    for words in (
        (*RUNNER_FLAGS, *_LINK_FLAGS, "-o", str(target), *map(str, runner_sources())),
        # In two steps: zig has no headers where no C library is linked.
        *(
            (*RUNNER_FLAGS, *LIBRARY_FLAGS, "-c", "-o", made, str(source))
            for made, source in zip(compiled, LIBRARY_SOURCES, strict=True)
        ),
        (*_LIBRARY_LINK_FLAGS, "-o", library, *compiled),
    ):
        subprocess.run(
            (*compiler, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_S,
            check=True,
        )
    content = Path(library).read_bytes()
    with target.open("ab") as file:
        file.write(content + len(content).to_bytes(8, "little") + LIBRARY_MARK)
    for made in (library, *compiled):
        os.unlink(made)


def has_compiler() -> bool:
    """Return whether there is something to compile the program for this machine with."""
    return any(_compilers(os.uname().machine))


def zig_compiler(zig: str, machine: str) -> tuple[str, ...]:
    """Return the words that call zig as the compiler for a machine; it brings the C library along."""
    return zig, "cc", "-target", f"{machine}-linux-musl", *_ZIG_FLAGS


def _compilers(machine: str) -> Iterator[tuple[str, ...]]:
    """Yield the words that call each installed compiler for a machine.

    Musl first, whose binary has a tenth of the size.
    """
    names = [f"{machine}-linux-musl-gcc", f"{machine}-linux-gnu-gcc"]
    if os.uname().machine == machine:
        names = ["musl-gcc", "cc", "gcc", *names]
    for name in names:
        if (found := shutil.which(name)) is not None:
            yield (found,)
    # The package `ziglang`: `make setup`, and a build from the sdist, install it where there is no other
    # compiler.
    package = importlib.util.find_spec("ziglang")
    if package is not None and package.origin is not None:
        yield zig_compiler(str(Path(package.origin).with_name("zig")), machine)


def _hash_of_sources() -> str:
    digest = hashlib.sha256(
        " ".join((*RUNNER_FLAGS, *_LINK_FLAGS, *LIBRARY_FLAGS, *_LIBRARY_LINK_FLAGS)).encode()
    )
    for path in sorted(_SOURCES.rglob("*.[ch]")):
        name = path.relative_to(_SOURCES).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file.

    The file is never removed: two processes could then hold locks on two files of the same name.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _unavailable(text: str) -> StartFailed:
    return StartFailed("docker_unavailable", text, hint=HINT)
