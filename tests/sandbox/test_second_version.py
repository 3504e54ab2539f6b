"""Control groups of version 2: what needs no controllers in this machine's hierarchy, the rest on a kernel of
its own.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.keeper.sandbox.cgroups import LEAF, mount_point, remove_groups
from tests.keeper.house import shim_program

_ROOT = mount_point("cgroup2", "")
_CAN_MAKE = _ROOT is not None and os.access(_ROOT, os.W_OK) and os.geteuid() == 0
_REPOSITORY = Path(__file__).parents[2]
_STARTING = Path(__file__).with_name("starting.py")
_LINUX = shutil.which("linux.uml")

# Process 1 of the kernel: where systemd would put the keeper of a unit with Delegate= and DelegateSubgroup=.
_INIT = """\
#!/bin/bash
echo "the first program runs"
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp/home LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /dev
mkdir /dev/repository
mount --bind {repository} /dev/repository
mount -t tmpfs tmpfs /tmp
mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/zero c 1 5; mknod -m 666 /dev/full c 1 7
mknod -m 666 /dev/random c 1 8; mknod -m 666 /dev/urandom c 1 9; mknod -m 666 /dev/tty c 5 0
mount -t tmpfs tmpfs /var/tmp
mkdir -p {repository}
mount --bind /dev/repository {repository}
mkdir /tmp/home /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx /dev/ptmx
ip link set lo up
mount -t cgroup2 none /sys/fs/cgroup
echo "+cpu +memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/unit/{leaf}
echo $$ > /sys/fs/cgroup/unit/{leaf}/cgroup.procs
cd {repository}
{python} -m pytest -q -rs -p no:cacheprovider --basetemp=/tmp/t tests/sandbox/test_limits.py
echo "exit code $?"
echo "groups left: $(ls -d /sys/fs/cgroup/unit/*/ | xargs -n 1 basename | tr '\\n' ' ')"
echo o > /proc/sysrq-trigger
sleep 10
"""


@pytest.mark.skipif(not _CAN_MAKE, reason="no group of version 2 can be made here")
def test_a_command_enters_its_group_and_the_group_goes_away() -> None:
    folder = f"{_ROOT}/outlive-test-{os.getpid()}"
    steps = [f"group {folder}", f"cgroup {folder}"]
    words = [sys.executable, str(_STARTING), "run", json.dumps([steps, ["/bin/cat", "/proc/self/cgroup"]])]
    source = str(_REPOSITORY / "src")
    try:
        ran = subprocess.run(
            words,
            env={"PYTHONPATH": source, SHIM_VARIABLE: shim_program()},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert f"0::/{os.path.basename(folder)}" in ran.stdout.splitlines()
    finally:
        remove_groups([folder])
    assert not os.path.exists(folder)


@pytest.mark.slow
@pytest.mark.root("its kernel has the rights of its caller's files")
@pytest.mark.skipif(
    _LINUX is None and not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"),
    reason="no user-mode Linux (the program linux.uml) on this machine",
)
@pytest.mark.timeout(420)  # an emulated kernel on a busy machine; it has 400 s of its own below
def test_limits_hold_in_groups_of_the_second_version(tmp_path: Path) -> None:
    """On a kernel that has no others: test_limits, with a keeper where systemd's delegation would put it.

    This machine's files are all there, and cannot be changed.
    """
    assert _LINUX is not None, "the package user-mode-linux is missing"
    init = tmp_path / "init"
    # Compiled here: in there the compiler takes minutes, and can write nothing.
    shim_program()
    init.write_text(_INIT.format(leaf=LEAF, repository=_REPOSITORY, python=sys.executable))
    init.chmod(0o755)
    words = [
        _LINUX, "mem=1536M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "con=null", "con0=fd:0,fd:1", f"uml_dir={tmp_path}",
    ]  # fmt: skip
    ran = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
        start_new_session=True,
    )
    if "the first program runs" not in ran.stdout and "put_fp_registers" in ran.stdout:
        # Its ptrace(2) calls carry registers of a fixed size; those of newer processors (AMX) are larger.
        pytest.skip("user-mode Linux cannot set this processor's floating point registers: nothing runs")
    assert "exit code 0" in ran.stdout, ran.stdout[-4000:]
    assert "SKIPPED" not in ran.stdout, ran.stdout[-4000:]
    assert f"groups left: {LEAF} \n" in ran.stdout.replace("\r", ""), ran.stdout[-1000:]
