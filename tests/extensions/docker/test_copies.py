"""`outlive cp` from and to containers, as somebody calls it at a shell."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Process
from tests.extensions.docker.server_house import DockerHouse
from tests.extensions.docker.tools import remove_containers
from tests.extensions.fleet.pairs import output_of
from tests.files.trees import make_tree, state_of
from tests.support.server import run_outlive

pytestmark = pytest.mark.docker

_USER = "1234:4321"
_SECRET = "only the host has this"


@pytest.fixture
def house(tmp_path: Path, docker_host: str) -> Iterator[DockerHouse]:
    """A server whose containers run as a user of their own."""
    with DockerHouse(tmp_path, docker_host, "--docker-user", _USER) as made:
        made.workspace.chmod(0o777)
        yield made


def _cp(house: DockerHouse, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_outlive("cp", *words, state_dir=house.state)


def _running(house: DockerHouse, line: str = "true", **options: str) -> Process:
    """Start something that does a thing, and stays from then on."""
    process = house.start(f"{line}; echo ready; exec sleep 1000", **options)
    for _ in process.follow():
        break
    return process


def _said(house: DockerHouse, line: str) -> str:
    process = house.start(line)
    return output_of(process)[0].decode()


@pytest.mark.promise("S0.19.copy_whole", "S0.19.copy_again")
def test_a_tree_goes_into_a_container_and_back(house: DockerHouse, tmp_path: Path) -> None:
    """Inside it belongs to the container's user; outside nothing of it is to be seen."""
    process = _running(house)
    tree = make_tree(tmp_path / "tree", large_bytes=3_000_000)
    done = _cp(house, str(tree), f"{process.process_id}:/tmp/tree")
    assert done.returncode == 0, done.stderr
    owners = _said(house, 'find /tmp/tree | while read -r one; do stat -c %u:%g "$one"; done | sort -u')
    assert _USER in owners.split()
    assert "0:0" not in owners.split()
    again = _cp(house, f"{process.process_id}:/tmp/tree", str(tmp_path / "back"))
    assert again.returncode == 0, again.stderr
    assert state_of(tmp_path / "back") == state_of(tree)
    assert "0 files copied" in _cp(house, str(tree), f"{process.process_id}:/tmp/tree").stderr


def test_what_is_named_is_the_containers_own(house: DockerHouse, tmp_path: Path) -> None:
    """Its /etc and its working folder, also from a shared container in which the process has ended."""
    process = house.start("echo written > made.txt; ln -s /etc/passwd link")
    assert process.wait(30).exit_code == 0, output_of(process)
    assert _cp(house, f"{process.process_id}:made.txt", str(tmp_path / "a")).returncode == 0
    assert (tmp_path / "a").read_text() == "written\n"
    assert _cp(house, str(tmp_path / "a"), f"{process.process_id}:/tmp/inside").returncode == 0
    assert _said(house, "cat /tmp/inside") == "written\n"
    assert not Path("/tmp/inside").exists()
    # A link there leads to a file there, or to none: never to the one of that name here.
    linked = _cp(house, f"{process.process_id}:link", str(tmp_path / "c"))
    assert (linked.returncode, "There is no" in linked.stderr or "No such file" in linked.stderr) == (1, True)
    assert not (tmp_path / "c").exists()


@pytest.mark.promise("S0.19.copy_wall")
def test_nothing_leads_out_of_a_container(house: DockerHouse, tmp_path: Path) -> None:
    """Neither links nor `..` nor /proc, also while a command inside swaps what is on the way."""
    (tmp_path / "secret").write_text(_SECRET)
    swaps = (
        "mkdir real; echo harmless > real/secret;"
        f" while true; do ln -sfn {tmp_path} way; ln -sfn $PWD/real way; done & true"
    )
    process = _running(house, swaps)
    target = tmp_path / "got"
    words = [
        f"{process.process_id}:{path}"
        for path in (
            f"{tmp_path}/secret",
            f"/../../../..{tmp_path}/secret",
            f"/proc/1/root{tmp_path}/secret",
            *["way/secret"] * 30,
        )
    ]
    found = []
    for word in words:
        _cp(house, word, str(target))
        if target.exists():
            found.append(target.read_text())
            target.unlink()
    assert set(found) == {"harmless\n"}
    refused = _cp(house, f"{process.process_id}:/proc/1/environ", str(target))
    assert (refused.returncode, "the kernel" in refused.stderr) == (1, True), refused.stderr


@pytest.mark.promise("S0.19.copy_wall")
def test_a_pid_that_another_process_has_by_now_opens_no_root(house: DockerHouse, tmp_path: Path) -> None:
    """A container's first process is known by its number: one of this machine has this machine's files."""
    process = _running(house)
    [folder] = house.state.glob("containers/*")
    (tmp_path / "secret").write_text(_SECRET)
    known = (folder / "init").read_text()
    (folder / "init").write_text(f"{os.getpid()}\n")
    refused = _cp(house, f"{process.process_id}:{tmp_path}/secret", str(tmp_path / "got"))
    (folder / "init").write_text(known)
    assert (refused.returncode, "does not run any more" in refused.stderr) == (1, True), refused.stderr
    assert not (tmp_path / "got").exists()


def test_a_container_that_is_gone_says_so(house: DockerHouse, tmp_path: Path, docker_host: str) -> None:
    strict = house.start("true", isolation="strict")
    strict.wait(30, until="closed")
    remove_containers(docker_host, house.state)
    gone = _cp(house, f"{strict.process_id}:/etc/hostname", str(tmp_path / "x"))
    assert (gone.returncode, "does not run any more" in gone.stderr) == (1, True), gone.stderr
    assert not (tmp_path / "x").exists()
