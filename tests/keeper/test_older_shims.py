"""Shims and supervisors that run already when a new version takes over, and kernels that know less: nothing is lost with either."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.backends.docker.runner_build import RUNNER_FLAGS, runner_sources
from outlive.core.layout import Layout
from outlive.keeper.common import locks
from outlive.keeper.common.spawn import SHIM_VARIABLE, keeper_argv, keeper_environment, spawn_detached
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import Gate

_STEPS = ("no_new_privileges",)
# All that a shim asked before it asked for the lock: whose the peer is.
_UID_ONLY = """
#include "shim/lock_proof.h"
#include <unistd.h>
#include "common/packets.h"
void read_degrade(void) {}
enum proof holds_lock(int link, int lock)
{
    uid_t uid = 0;
    (void)lock;
    return peer_of(link, &uid) >= 0 && uid == getuid() ? IS_HOLDER : NO_HOLDER;
}
bool is_held(int lock)
{
    (void)lock;
    return false;
}
"""
# All that a supervisor had before it had the record lock.
_ONE_LOCK = """
import sys, time
sys.path.insert(0, sys.argv[1])
from outlive.keeper.common.locks import take_lock
assert take_lock(sys.argv[2]) is not None
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def older_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shim that serves every peer of its user, as the first ones did."""
    folder = tmp_path_factory.mktemp("older")
    replaced = folder / "lock_proof.c"
    replaced.write_text(_UID_ONLY)
    sources = [str(one) for one in runner_sources() if one.name != replaced.name]
    (native,) = (one.parent for one in runner_sources() if one.name == "main.c")
    compiler = shutil.which("gcc") or shutil.which("clang")
    words = [str(compiler), *RUNNER_FLAGS, f"-I{native}", "-o", str(folder / "shim")]
    done = compiler and subprocess.run([*words, str(replaced), *sources], check=False)
    if not done or done.returncode:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS")
        pytest.skip("no shim can be compiled here")
    return folder / "shim"


def _outlive_everybody(house: House, gate: Gate, *, steps: tuple[str, ...] | None = None) -> None:
    """Start commands, replace everybody but their shims, and see that nothing is missing."""
    started = [
        house.start(*sh(f"echo early; {gate.wait}; echo late; exit 7"), confinement=steps) for _ in range(4)
    ]
    for process_id in started:
        house.wait_output(process_id, 6)
    shims = {process_id: house.shim_of(process_id) for process_id in started}
    for role in ("supervisor", "guardian", "supervisor"):
        house.kill(getattr(house, role)())
        house.wait_redundant()
    assert {process_id: house.shim_of(process_id) for process_id in started} == shims
    gate.open()
    for process_id in started:
        house.client.wait_done(process_id)
        assert (house.wire_code(process_id), house.out(process_id)) == (7, b"early\nlate\n")
        assert not house.done(process_id)["holder_lost"]


@pytest.mark.thorough
def test_shims_that_ask_for_the_uid_alone_are_taken_over(
    build_house: Callable[..., House], older_shim: Path, gate: Gate
) -> None:
    _outlive_everybody(build_house(**{SHIM_VARIABLE: str(older_shim)}), gate)


@pytest.mark.parametrize("steps", [None, _STEPS], ids=["program", "python"])
@pytest.mark.parametrize("program", ["compiled", "off"])
def test_on_a_kernel_that_names_no_peer_everything_is_taken_over(
    build_house: Callable[..., House], gate: Gate, program: str, steps: tuple[str, ...] | None
) -> None:
    setting = shim_program() if program == "compiled" else program
    house = build_house(**{SHIM_VARIABLE: setting, "OUTLIVE_DEGRADE": "peer_pidfd"})
    _outlive_everybody(house, gate, steps=steps)
    assert "shim failed" not in house.log()


@pytest.mark.thorough
def test_a_supervisor_without_the_record_lock_is_replaced(tmp_path: Path) -> None:
    """It runs from before an upgrade in place, and its guardian has died: the new one cannot tell it from a stranger."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    layout = Layout(str(state))
    source = str(Path(locks.__file__).parents[3])
    words = [sys.executable, "-S", "-c", _ONE_LOCK, source, layout.supervisor_lock]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as older:
        assert older.stdout is not None
        assert older.stdout.readline() == b"held\n"
        guardian = spawn_detached(keeper_argv("guardian", str(state)), keeper_environment("guardian"))
        assert older.wait(60) == -signal.SIGKILL
    with House(state) as house:
        assert house.guardian() == guardian
        assert house.run(*sh("exit 3"))[0] == 3
    os.waitpid(guardian, 0)
