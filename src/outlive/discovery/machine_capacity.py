"""What this machine has, as far as this process may use it: `machine_capacity` and `machine_gpus`.

Asks files and the environment.
"""

import glob
import math
import os
from collections.abc import Mapping

from outlive.core.needs import THOUSANDTHS, Amounts

# cgroups(7), version 2: what a container or a service manager leaves to us. "max" is no bound.
_CPU_QUOTA, _MEMORY_BOUND = "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"


def machine_capacity(environment: Mapping[str, str] = os.environ) -> Amounts:
    """Return what commands could take of this machine together if nothing else ran on it."""
    gpus = len(machine_gpus(environment))
    return Amounts(cpu_milli=_cpu_milli(), memory_bytes=_memory_bytes(), gpu_milli=gpus * THOUSANDTHS)


def machine_gpus(environment: Mapping[str, str] = os.environ, *, gpu_milli: int = 0) -> tuple[str, ...]:
    """Return this machine's GPUs by the names that drivers take: numbers, or what the server's own variable
    names.

    `gpu_milli`: there are at least so many thousandths, whatever can be seen of them.
    """
    own = environment.get("CUDA_VISIBLE_DEVICES")
    names = range(_gpus()) if own is None else (name.strip() for name in own.split(","))
    found = [name for name in map(str, names) if name not in {"", "-1"}]
    count = math.ceil(gpu_milli / THOUSANDTHS)
    unseen = [name for name in map(str, range(count)) if name not in found]
    return (*found, *unseen[: max(0, count - len(found))])


def _cpu_milli() -> int:
    cores = len(os.sched_getaffinity(0)) * THOUSANDTHS
    quota, _, period = _text(_CPU_QUOTA).partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        return min(cores, int(quota) * THOUSANDTHS // int(period))
    return cores


def _memory_bytes() -> int:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    bound = _text(_MEMORY_BOUND).strip()
    return min(pages * size, int(bound)) if bound.isdigit() else pages * size


def _gpus() -> int:
    """Return how many GPUs drivers have set up: a folder each (NVIDIA), or a node with a number of its own
    (AMD's kfd).
    """
    nvidia = len(glob.glob("/proc/driver/nvidia/gpus/*"))
    amd = sum(
        _text(path).strip() not in {"", "0"}
        for path in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id")
    )
    return nvidia + amd


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
