"""Which control groups this user may use: looked for where the kernel says that we are, and tried out."""

import contextlib
import os

from outlive.keeper.common.cgroups import group_of, mount_point


def probe_cgroup_v2() -> tuple[bool, str]:
    """Tell whether a child group with freeze and kill can be made below our own (cgroups(7))."""
    root = mount_point("cgroup2", "")
    path = group_of("")
    if root is None or path is None:
        return False, "not mounted"
    return _try_group(root + path, needed=("cgroup.freeze", "cgroup.kill"))


def probe_cgroup_v1() -> tuple[bool, str]:
    """Tell whether a child group of the version 1 freezer can be made below our own."""
    root = mount_point("cgroup", "freezer")
    path = group_of("freezer")
    if root is None or path is None:
        return False, "not mounted"
    return _try_group(root + path, needed=("freezer.state",))


def _try_group(parent: str, *, needed: tuple[str, ...]) -> tuple[bool, str]:
    group = f"{parent.rstrip('/')}/outlive-probe-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        return False, f"not writable ({error.strerror})"
    try:
        missing = [name for name in needed if not os.access(f"{group}/{name}", os.W_OK)]
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(group)
    if missing:
        return False, f"{' and '.join(missing)} missing"
    return True, f"writable below {parent}"
