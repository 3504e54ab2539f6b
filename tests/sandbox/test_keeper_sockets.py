"""No socket of the keeper serves a command, in whichever profile, whoever it runs as (issue 19, 1)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.command import Profile
from outlive.keeper.sandbox.capabilities import Capabilities
from outlive.protocols.keeper import decode_message, encode_message
from tests.extensions.docker.contained.house import HAS_NAMESPACES, ContainedHouse
from tests.keeper.house import House
from tests.runner.conftest import binary  # noqa: F401 -- a fixture
from tests.sandbox.houses import INSIDE_PYTHON, USERS, a_house, a_workspace, offers_of, steps_of
from tests.sandbox.ordinary import open_folder
from tests.support.processes import is_alive, stat, wait_state_folder_empty

_SCRIPTS = ("knocking.py", "forging.py")
_PROFILES = (Profile.OPEN, Profile.GUARDED, Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED)


@pytest.fixture(scope="module", params=USERS)
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """A keeper of ours, and one of an ordinary user."""
    with a_house(str(request.param)) as kept:
        yield kept


@pytest.fixture(scope="module")
def workspace(house: House) -> Iterator[Path]:
    """The folder of the commands."""
    with a_workspace(house, *_SCRIPTS) as folder:
        yield folder


@pytest.fixture(scope="module")
def offers(house: House) -> Capabilities:
    """What the machine offers to the keeper's user."""
    return offers_of(house)


def _sockets(house: House) -> tuple[list[str], list[str]]:
    """Return the sockets' files, and by which names /proc/net/unix lists them: a process's folder had another
    one at first.
    """
    files = [str(house.state_dir / name) for name in ("keeper.sock", "guardian.sock")]
    files += [str(path) for path in house.state_dir.glob("processes/*/sock")]
    files += [str(path) for path in house.state_dir.glob("containers/*/runner.sock")]
    lines = Path("/proc/net/unix").read_text().splitlines()
    return files, sorted({line.split()[7] for line in lines if f" {house.state_dir}/" in line})


def _everything_said(victim: str, folder: Path) -> list[bytes]:
    """Return each word of the protocols of shims, of the guardian and of the supervisor, with everything it
    takes.
    """
    words = [
        *(b"hello 1", b"keep rwp", b"close ioe", f"hold LIOE {folder}".encode(), f"spawn LIOE {folder}".encode()),  # noqa: E501 -- cut nowhere better: a table, or another program's text
        *(b"release", b"release patient", b"quit", b"fork", b"exec", b"pong", b"retire", b""),
    ]  # fmt: skip
    bare: list[dict[str, object]] = [
        {"op": "hello", "role": "server", "version": 1, "pid": 1},
        {"op": "hello", "role": "cli", "version": 1, "pid": 1},
        {"op": "start", "id": "0" * 26, "spec_bytes": 2},
        {"op": "end", "kill": True},
    ]
    bare += [{"op": one} for one in ("status", "offers", "retire", "lend")]
    about: list[dict[str, object]] = [
        {"op": "stop", "cause": 1, "grace_s": 0.0},
        {"op": "signal", "signal": 9, "whole_tree": True},
        {"op": "resize", "rows": 1, "cols": 1},
        {"op": "release", "out": 1, "err": 1},
        {"op": "unbound", "output_limit": None},
        {"op": "close_output", "stream": 0},
    ]
    about += [{"op": one} for one in ("write", "close_stdin", "pause", "resume")]
    asked = bare + [{"id": victim, **one} for one in about]
    return words + [encode_message({"req": number, **one}, b"{}") for number, one in enumerate(asked)]


def _is_refusal(path: str, answer: object) -> bool:
    if isinstance(answer, str):  # it was not even connected to, or nothing is there yet
        return answer in {"ENOENT", "EACCES", "ECONNREFUSED"} or (
            "/prepared/" in path and answer in {"timeout", "EAGAIN"}
        )
    assert isinstance(answer, list)
    raw, fds = bytes.fromhex(answer[0]), answer[1]
    if not raw or not path.endswith("/keeper.sock"):
        return (raw, fds) == (b"", 0)
    reply, payload = decode_message(raw)
    # To lend its standard input a command may ask, rightly; that is all. (Here it does not say for what.)
    is_refused = not reply["ok"] and reply["error"] in {"inside_process", "invalid_params"}
    return is_refused and (payload, fds) == (b"", 0) and set(reply) == {"req", "ok", "error", "message"}


@pytest.mark.thorough
@pytest.mark.promise("A.keeper", "A.inside")
@pytest.mark.parametrize("profile", _PROFILES, ids=lambda one: one.value)
def test_no_socket_of_the_keeper_serves_a_command(
    house: House, offers: Capabilities, workspace: Path, profile: Profile
) -> None:
    _knock_everywhere(house, steps_of(house, offers, workspace, profile), workspace, profile)


@pytest.fixture(scope="module")
def contained(binary: Path) -> Iterator[ContainedHouse]:
    """A keeper whose commands are in a container: the sockets of their minders and of the runner lie in its
    state folder.
    """
    if not HAS_NAMESPACES:
        pytest.skip("only root may make a PID namespace")
    with open_folder() as folder, ContainedHouse(folder / "state", runner=binary) as kept:
        yield kept


@pytest.fixture(scope="module")
def beside(contained: ContainedHouse) -> Iterator[Path]:
    """The folder of the commands that are in no container."""
    with a_workspace(contained, *_SCRIPTS) as folder:
        yield folder


@pytest.mark.thorough
@pytest.mark.promise("A.keeper", "A.inside")
@pytest.mark.parametrize("profile", _PROFILES, ids=lambda one: one.value)
def test_no_socket_of_a_container_serves_a_command(
    contained: ContainedHouse, beside: Path, profile: Profile
) -> None:
    steps = steps_of(contained, offers_of(contained), beside, profile)
    _knock_everywhere(contained, steps, beside, profile)


def _knock_everywhere(house: House, steps: tuple[str, ...] | None, workspace: Path, profile: Profile) -> None:
    """Knock from inside of a profile at each socket; nothing may be served, and all that were there go on."""
    victims = [house.start("/bin/cat", stdin="pipe"), house.start("/bin/cat", stdio="pty")]
    pids = [house.pid(one) for one in victims]
    before = {one: (house.folder(one) / "pid").read_bytes() for one in victims}
    keeper = (house.supervisor(), house.guardian())
    shims = {house.shim_of(one) for one in victims}
    files, listed = _sockets(house)
    assert len(files) >= 2 + len(victims)
    assert len(listed) >= 2 + len(victims)
    told = {
        "state": str(house.state_dir),
        "paths": files + listed,
        "said": [packet.hex() for packet in _everything_said(victims[0], workspace)],
    }
    words = (INSIDE_PYTHON, "-I", "-S", "-B", str(workspace / "knocking.py"), json.dumps(told))
    process_id, spec = House.spec(house, *words, cwd=str(workspace), confinement=steps)  # in no container
    house.client.start(spec, process_id=process_id)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == 0, house.err(process_id)
    rounds = json.loads(house.out(process_id))
    assert set(rounds) == {"as it is", "written", "replaced"}
    for found in rounds.values():
        assert set(found) >= set(told["paths"])
    served = {
        (way, path, bytes.fromhex(said)): answer
        for way, found in rounds.items()
        for path, answers in found.items()
        for said, answer in zip(told["said"], answers, strict=True)
        if not _is_refusal(path, answer)
    }
    assert not served
    if profile is not Profile.SEALED:  # it really knocked
        served_by = [*files[:2], *(str(house.folder(one) / "sock") for one in victims)]
        for found in rounds.values():
            assert all(isinstance(answer, list) for path in served_by for answer in found[path])
    # Nobody was replaced, nothing was changed, and all of them still do what they are told.
    assert (house.supervisor(), house.guardian()) == keeper
    assert {one: (house.folder(one) / "pid").read_bytes() for one in victims} == before
    house.client.ask("write", payload=b"still here\n", id=victims[0])
    assert house.wait_output(victims[0], 11) == b"still here\n"
    for one in victims:
        house.client.ask("stop", id=one, cause=1, grace_s=0.0)
        house.client.wait_done(one)
        assert house.wire_code(one) in {-9, -15}
    assert not any(is_alive(pid) for pid in pids)
    assert sorted(os.listdir(workspace)) == sorted(_SCRIPTS)
    if not isinstance(house, ContainedHouse):  # else they go with their commands
        assert all(is_alive(pid) and (seen := stat(pid)) and seen.ppid == keeper[1] for pid in shims)


@pytest.mark.promise("A.keeper")
def test_after_all_that_the_keeper_ends_and_no_shim_is_left(house: House) -> None:
    """The last one: a shim that had let go of its supervisor would wait for another one for ever."""
    assert house.status()["processes"] == 0
    house.end()
    assert not wait_state_folder_empty(house.state_dir)
