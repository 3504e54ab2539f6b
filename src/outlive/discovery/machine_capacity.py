"""What this machine has: `machine_capacity`, processors, memory and GPUs, as far as this process may use them. Asks files only."""

import glob
import os

from outlive.core.needs import THOUSANDTHS, Amounts

# cgroups(7), version 2: what a container or a service manager leaves to us. "max" is no bound.
_CPU_QUOTA, _MEMORY_BOUND = "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max"


def machine_capacity() -> Amounts:
    """Return what commands could take of this machine together if nothing else ran on it."""
    return Amounts(cpu_milli=_cpu_milli(), memory_bytes=_memory_bytes(), gpu_milli=_gpus() * THOUSANDTHS)


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
    """Return how many GPUs drivers have set up: a folder each (NVIDIA), or a node with a number of its own (AMD's kfd)."""
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
