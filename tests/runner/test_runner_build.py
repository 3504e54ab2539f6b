"""Where the runner's binary comes from: shipped, compiled once, or not to be had, which is said."""

import contextlib
import os
import shutil
import stat
import subprocess
import threading
import types
from pathlib import Path

import pytest

from outlive.core.errors import StartFailed
from outlive.discovery import runner_build as building
from outlive.discovery.runner_build import MACHINES, compile_runner, runner_binary
from outlive.kernel import sockets
from tests.cli.screens import needs
from tests.runner.playing import PATIENCE_S, Command, Runner

pytestmark = pytest.mark.thorough


def _count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counted: list[str] = []
    real = compile_runner

    def compile_and_count(machine: str, target: Path) -> None:
        counted.append(machine)
        real(machine, target)

    monkeypatch.setattr(building, "compile_runner", compile_and_count)
    return counted


@pytest.fixture(autouse=True)
def _closed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package holds nothing that was compiled, and may not be written."""
    monkeypatch.setattr(building, "_BIN", tmp_path / "none")
    real = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: (mode != os.W_OK or path != building._SOURCES) and real(path, mode),
    )


@needs("gcc")
def test_it_is_compiled_once_for_many_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _count_compilations(monkeypatch)
    cache = tmp_path / "cache"
    together = threading.Barrier(6)
    found: list[Path] = []

    def ask() -> None:
        together.wait()
        found.append(runner_binary("x86_64", cache))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert counted == ["x86_64"]
    assert stat.S_IMODE(found[0].stat().st_mode) == 0o755
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".lock"], "no half of one is left"


@needs("gcc")
def test_the_same_sources_make_the_same_bytes_in_a_file_of_their_own(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    for target in (first, second):
        compile_runner("x86_64", target)
    assert first.read_bytes() == second.read_bytes()
    headers = subprocess.run(["readelf", "-l", first], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers, "it needs no loader and no library"


def test_without_a_compiler_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for machine in MACHINES:
        with pytest.raises(StartFailed) as refused:
            runner_binary(machine, tmp_path / "cache")
        assert refused.value.code == "docker_unavailable"
        assert "compiler" in refused.value.message
        assert "gcc" in refused.value.hint
    with pytest.raises(StartFailed, match="riscv64"):
        runner_binary("riscv64", tmp_path / "cache")


def test_a_compiler_that_cannot_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cc", "x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"):
        broken = tmp_path / name
        broken.write_text("#!/bin/sh\necho 'cannot find -lc' >&2\nexit 1\n")
        broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(StartFailed, match="cannot find -lc") as refused:
        runner_binary("aarch64", tmp_path / "cache")
    assert refused.value.code == "docker_unavailable"
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_shipped_one_is_taken(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "runner"
    (sources / "bin").mkdir(parents=True)
    shipped = sources / "bin" / "outlive-runner-x86_64"
    shutil.copy(binary, shipped)
    monkeypatch.setattr(building, "_SOURCES", sources)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runner_binary("x86_64", tmp_path / "cache") == shipped
    shipped.chmod(0o644)
    copied = runner_binary("x86_64", tmp_path / "cache")
    assert copied != shipped, "an installer may drop the bit that makes it executable"
    assert subprocess.run([copied, "--version"], capture_output=True, check=True).stdout.startswith(
        b"outlive-runner "
    )


@needs("aarch64-linux-gnu-gcc", "qemu-aarch64-static")
def test_the_other_machines_runner_executes(tmp_path: Path) -> None:
    """The emulator refuses to make a subreaper: nothing can be started under it, and that is said at once."""
    other = runner_binary("aarch64", tmp_path)
    emulator = str(shutil.which("qemu-aarch64-static"))
    said = subprocess.run([emulator, other, "--version"], capture_output=True, check=True).stdout
    assert said.startswith(b"outlive-runner ")
    words = [emulator, str(other), "serve", "--any-peer"]
    path = str(tmp_path / "runner.sock")
    with sockets.listen_unix(path) as listener:
        process = subprocess.Popen(words, stdin=listener.fileno(), stderr=subprocess.PIPE, text=True)
    with process:
        with contextlib.suppress(OSError), sockets.connect_unix(path) as link:
            link.settimeout(PATIENCE_S)
            link.recv(100)  # its greeting, or the end
        process.terminate()  # a newer emulator may be able to
        _, complaint = process.communicate()
        assert process.returncode == 0 or "PR_SET_CHILD_SUBREAPER" in complaint


@needs("gcc")
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_either_c_library_will_do(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setattr(building, "_compilers", lambda _machine: iter([(found,)]))
    runner = Runner(runner_binary("x86_64", tmp_path / "cache"), tmp_path)
    try:
        command = Command(runner, tmp_path / "one")
        command.start(("/bin/sh", "-c", "stty size; sleep 0.01; kill -9 $$"), pty=(24, 80), stdin=False)
        command.read_until(b"24 80", "m")
        assert command.ended()[:2] == ["signaled", "9"]
        command.release()
    finally:
        runner.discard()


def test_a_machine_without_a_wheel_has_a_program_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What compiles there is for that machine alone: containers run on the machines of the wheels."""
    with pytest.raises(StartFailed, match="riscv64"):
        runner_binary("riscv64", tmp_path)
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(machine="riscv64"))
    made = building.compiled_runner("riscv64", tmp_path)
    made.write_bytes(b"")
    made.chmod(0o755)
    assert runner_binary("riscv64", tmp_path) == made
