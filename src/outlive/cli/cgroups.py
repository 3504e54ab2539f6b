"""Which control groups this user may use: looked for where the kernel says that we are, and tried out."""

import contextlib
import os

__all__ = ["probe_cgroup_v1", "probe_cgroup_v2"]


def probe_cgroup_v2() -> tuple[bool, str]:
    """Tell whether a child group with freeze and kill can be made below our own (cgroups(7))."""
    root = _mount_point("cgroup2", "")
    path = _own_group("")
    if root is None or path is None:
        return False, "not mounted"
    return _try_group(root + path, needed=("cgroup.freeze", "cgroup.kill"))


def probe_cgroup_v1() -> tuple[bool, str]:
    """Tell whether a child group of the version 1 freezer can be made below our own."""
    root = _mount_point("cgroup", "freezer")
    path = _own_group("freezer")
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


def _mount_point(kind: str, controller: str) -> str | None:
    with (
        contextlib.suppress(OSError),
        open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts,
    ):
        for line in mounts:
            _, point, found, options, *_ = line.split(" ")
            if found == kind and (not controller or controller in options.split(",")):
                return point
    return None


def _own_group(controller: str) -> str | None:
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as groups:
        for line in groups:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == controller or (controller and controller in controllers.split(",")):
                return path
    return None
