"""What may be mounted into a container, and what never is; without a daemon."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import CommandRefused, OutliveError, StartFailed
from outlive.core.location import ContainerPlan
from outlive.core.mounts import PathIdentity
from outlive.extensions.docker.mounts import Mount, check_mounts, still_there


class Tree:
    """A state folder beside a workspace."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.workspace = root / "workspace"
        for folder in (self.state / "processes", self.workspace / "below"):
            folder.mkdir(parents=True)

    def check(self, *mounts: str, workspace: str = "") -> tuple[Mount, ...]:
        plan = ContainerPlan(
            image="i", workspace=workspace or str(self.workspace), principal="p", mounts=mounts
        )
        return check_mounts(
            plan, state_dir=str(self.state), daemon_socket=str(self.root / "daemon" / "d.sock")
        )

    def refusal(self, *mounts: str, workspace: str = "") -> OutliveError:
        with pytest.raises(OutliveError) as caught:
            self.check(*mounts, workspace=workspace)
        return caught.value


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


def test_workspace_and_mounts_are_as_the_kernel_has_them(tree: Tree) -> None:
    (tree.root / "link").symlink_to(tree.workspace)
    workspace, other = tree.check(
        f"{tree.root}/link/below/../below:/inside:ro", workspace=f"{tree.root}/link"
    )
    assert (workspace.source, workspace.target) == (str(tree.workspace), f"{tree.root}/link")
    assert (other.source, other.target, other.is_read_only) == (f"{tree.workspace}/below", "/inside", True)


@pytest.mark.parametrize(
    "source",
    [
        "/",
        "{root}",
        "{root}/state",
        "{root}/state/",
        "{root}/state/processes",
        "{root}/workspace/../state",
        "{root}/workspace/into-state",
        "{root}/workspace/into-state/processes",
        "{root}/workspace/to-root",
        "{root}/workspace/chain",
        "{root}/daemon",
        "{root}/daemon/d.sock",
        "{root}/workspace/to-kernel",
        "/proc/self/cwd",
        "/proc/1/root",
        "/proc",
        "/sys/kernel",
        "/dev",
        "/var/run",
        "/run",
    ],
)
def test_what_would_open_the_machine_is_refused(tree: Tree, source: str) -> None:
    (tree.workspace / "into-state").symlink_to("../state")
    (tree.workspace / "to-root").symlink_to("/")
    (tree.workspace / "chain").symlink_to("into-state")
    (tree.workspace / "to-kernel").symlink_to("/sys/kernel")
    (tree.root / "daemon").mkdir()
    (tree.root / "daemon" / "d.sock").touch()
    path = source.format(root=tree.root)
    assert tree.refusal(f"{path}:/inside:ro").code == "mount_refused"
    assert tree.refusal(workspace=path).code == "mount_refused"


def test_a_link_to_the_daemons_socket_is_refused(tree: Tree) -> None:
    (tree.root / "daemon").mkdir()
    (tree.root / "daemon" / "d.sock").touch()
    (tree.workspace / "harmless").symlink_to(tree.root / "daemon" / "d.sock")
    os.link(tree.root / "daemon" / "d.sock", tree.workspace / "twin")
    for name in ("harmless", "twin"):
        assert tree.refusal(f"{tree.workspace}/{name}:/inside").code == "mount_refused"


@pytest.mark.root("only root mounts")
@pytest.mark.parametrize("what", ["state", "state/processes", ".", "daemon"])
def test_a_second_mount_of_the_same_folder_is_seen_through(tree: Tree, what: str) -> None:
    (tree.root / "daemon").mkdir()
    alias = tree.workspace / "alias"
    (alias / "x").mkdir(parents=True)
    if subprocess.run(["mount", "--bind", tree.root / what, alias], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        for source in (alias, tree.workspace):  # it, and what holds it
            assert tree.refusal(f"{source}:/inside").code == "mount_refused"
        tree.check(f"{tree.workspace}/below:/inside", workspace=f"{tree.workspace}/below")
    finally:
        subprocess.run(["umount", alias], check=True)


def test_places_are_read_from_the_mount_table() -> None:
    places = PathIdentity(
        "21 1 8:1 / / rw - ext4 /dev/a rw\n"
        "22 21 8:2 / /data rw - ext4 /dev/b rw\n"
        "23 21 8:2 /people/ann /with\\040blank rw - ext4 /dev/b rw\n"
    )
    assert places.of("/") == ("8:1", "/")
    assert places.of("/etc/x") == ("8:1", "/etc/x")
    assert places.of("/data/people/ann/y") == places.of("/with blank/y") == ("8:2", "/people/ann/y")
    assert places.meet("/with blank", "/data/people/ann/y")
    assert places.meet("/with blank/y", "/data/people")
    assert places.meet("/", "/data/people"), "it is mounted below"
    assert not places.meet("/with blank/y", "/data/people/ann/z")
    assert not places.meet("/etc", "/data/etc")


@pytest.mark.parametrize(
    "target",
    ["/", "/proc", "/proc/x", "/sys", "/dev/shm", "/run", "/run/outlive", "/run/outlive/x", "/run/outlive-runner",  # noqa: E501 -- cut nowhere better: a table, or another program's text
     "relative", "/a/../b", "/a/./b", "//a", ""],
)  # fmt: skip
def test_what_the_container_itself_needs_is_not_covered(tree: Tree, target: str) -> None:
    assert tree.refusal(f"{tree.workspace}:{target}").code == "mount_refused"


@pytest.mark.parametrize("text", ["", "/a", "/a:/b:rx", "/a:/b:ro:ro", ":", "::"])
def test_what_is_no_mount_is_refused(tree: Tree, text: str) -> None:
    assert tree.refusal(text).code == "mount_refused"


def test_two_mounts_at_one_place_are_refused(tree: Tree) -> None:
    assert tree.refusal(f"{tree.workspace}:/x", f"{tree.workspace}:/x/").code == "mount_refused"


def test_what_is_missing_or_no_folder_is_said(tree: Tree) -> None:
    (tree.root / "file").touch()
    assert tree.refusal(f"{tree.root}/none:/x").code == "mount_failed"
    assert tree.refusal(workspace=f"{tree.root}/none").code == "mount_failed"
    assert tree.refusal(workspace=f"{tree.root}/file").code == "mount_failed"


def test_a_source_that_was_replaced_is_noticed(tree: Tree) -> None:
    mounts = tree.check(f"{tree.workspace}/below:/x")
    assert still_there(mounts)
    (tree.workspace / "below").rename(tree.workspace / "before")
    assert not still_there(mounts)
    (tree.workspace / "below").mkdir()
    assert not still_there(mounts)
    (tree.workspace / "below").rmdir()
    (tree.workspace / "below").symlink_to(tree.state)
    assert not still_there(mounts)


_STEPS = st.lists(
    st.sampled_from(["..", ".", "state", "workspace", "below", "processes", "up", "in", ""]), max_size=7
)


@given(_STEPS)
def test_no_way_of_writing_a_path_reaches_the_state_folder(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    tree = Tree(tmp_path_factory.mktemp("t").resolve())
    (tree.workspace / "up").symlink_to("..")
    (tree.workspace / "below" / "in").symlink_to("../../state/processes")
    try:
        mount = tree.check("/".join([str(tree.workspace), *steps]) + ":/inside")[1]
    except (CommandRefused, StartFailed):  # closed, or missing
        return
    real = os.path.realpath(mount.source)
    assert real == mount.source
    assert os.path.commonpath([real, tree.state]) not in {real, str(tree.state)}


@pytest.mark.promise("S0.3.profile")
def test_outlives_own_files_are_read_only_inside_and_keep_their_names(tree: Tree) -> None:
    """A read-only mount needs nothing; a link to them cannot be mounted over."""
    package, way = tree.workspace / "tools" / "venv", tree.workspace / "tools"
    package.mkdir(parents=True)
    plan = ContainerPlan(image="i", workspace=str(tree.workspace), principal="p", mounts=(f"{way}:/more:ro",))
    found = check_mounts(plan, state_dir=str(tree.state), own=[str(package)])
    kept = {mount.target: mount.is_read_only for mount in found[2:]}
    assert kept == {str(way): False, str(package): True}
    (tree.workspace / ".venv").symlink_to(package)
    with pytest.raises(CommandRefused, match="reached by the link"):
        check_mounts(plan, state_dir=str(tree.state), own=[str(tree.workspace / ".venv")])
    with pytest.raises(CommandRefused, match="outlive's own code"):
        check_mounts(plan, state_dir=str(tree.state), own=[str(tree.root)])


def test_the_state_folder_of_another_server_is_closed_inside_and_no_part_of_it_is_mounted(tree: Tree) -> None:
    """Decision 226."""
    other = tree.workspace / "other"
    (other / "processes").mkdir(parents=True)
    (other / "identity").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(other / "server.sock"))
        closed = [mount.target for mount in tree.check() if mount.is_closed]
        assert closed == [str(other)]
        for part in (other, other / "processes"):
            assert tree.refusal(f"{part}:/inside:ro").code == "mount_refused"
