"""Build everything that pip installs outlive from, into a folder: the sdist, and a wheel for each machine.

The programs are compiled here for every machine, by zig from the package `ziglang`, whose compiler and C
library are the same wherever it runs: so the same checkout makes the same bytes on every machine (decision
190). They are static, and one serves glibc and musl. Each is tried before it goes into a wheel, on another
machine's through qemu.

    python -m scripts.wheels [--into dist] [--zig PATH]

`scripts/release.sh` installs zig and calls this. Nothing is uploaded.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from outlive.discovery.runner_build import MACHINES, compile_runner, shipped_name, zig_compiler

ROOT = Path(__file__).parents[1]
_TRY_S = 60.0  # an emulated program on a busy machine answers within a second
# Name, word, standard input and standard output: its version, and how it becomes the filter that it is called
# as.
_TRIES = (
    ("outlive-runner", "--version", b"", b"outlive-runner 1\n"),
    ("tail", "-n1", b"first\nlast\n", b"last\n"),
)


def compile_programs(folder: Path, *, zig: str | None) -> None:
    """Compile the program of each machine into the folder, under the name that a wheel has it by, and try it.

    Args:
        folder: Where they go; it exists.
        zig: The path of zig; None takes the compilers that this machine has, whose bytes are those of their C
            library.

    Raises:
        StartFailed: A program cannot be compiled.
        RuntimeError: One does not answer as it should.
    """
    for machine in MACHINES:
        target = folder / Path(shipped_name(machine)).name
        compiler = zig_compiler(zig, machine) if zig else ()
        compile_runner(machine, target, compiler=compiler)
        target.chmod(0o755)
        try_program(machine, target)


def try_program(machine: str, program: Path) -> bool:
    """Execute two parts of a program, on this machine or through qemu's emulation of a process.

    Return whether that could be done.

    More cannot be tried in an emulator: it makes no subreaper (`PR_SET_CHILD_SUBREAPER`), with which runner
    and shims begin.

    Raises:
        RuntimeError: It answered otherwise than it should.
    """
    emulator = None
    if machine != platform.machine() and (emulator := shutil.which(f"qemu-{machine}-static")) is None:
        return False
    for name, word, typed, wanted in _TRIES:
        words = [emulator, "-0", name, str(program), word] if emulator else [name, word]
        done = subprocess.run(
            words,
            executable=emulator or program,
            input=typed,
            capture_output=True,
            timeout=_TRY_S,
            check=False,
        )
        if done.returncode or done.stdout != wanted:
            raise RuntimeError(
                f"{program} as {name!r} answered {done.stdout!r} {done.stderr!r}, not {wanted!r}."
            )
    return True


def build(into: Path, *, programs: Path) -> list[Path]:
    """Build sdist and wheels from this checkout, and return their paths.

    Args:
        into: The folder that they are put into.
        programs: A folder with what `compile_programs` makes.

    Raises:
        subprocess.CalledProcessError: A build failed; it has said why.
    """
    base = {"SOURCE_DATE_EPOCH": source_date(), **os.environ}
    return [
        *_built(into, "--sdist", env=base),
        *(
            path
            for machine in MACHINES
            for path in _built(
                into,
                "--wheel",
                env=base | {"OUTLIVE_WHEEL": machine, "OUTLIVE_WHEEL_PROGRAMS": str(programs)},
            )
        ),
    ]


def _built(into: Path, kind: str, *, env: Mapping[str, str]) -> Iterator[Path]:
    """Build one distribution in a folder of its own, so that its name need not be guessed."""
    with tempfile.TemporaryDirectory(dir=into) as folder:
        words = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", folder, str(ROOT)]
        subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        for made in Path(folder).iterdir():
            yield made.rename(into / made.name)


def source_date() -> str:
    """Return the time that files in archives get, in seconds since 1970: the last commit's, else the oldest
    that a zip can hold.
    """
    words = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "315532800"


def main() -> None:
    """Build everything and print the paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=Path("dist"), help="the folder (dist)")
    parser.add_argument("--zig", help="zig's path; without it this machine's compilers are used")
    asked = parser.parse_args()
    asked.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="outlive-programs-") as folder:
        compile_programs(Path(folder), zig=asked.zig)
        for path in build(asked.into, programs=Path(folder)):
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
