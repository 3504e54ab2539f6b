"""A computer whose clock is wrong: a library that is loaded before libc and moves the clocks of one program.

Real programs, nothing of theirs replaced: they ask the C library for the time and get another one. The
offsets are read from a file at every question, so that a clock can be set while a program runs.
"""

import subprocess
import time
from pathlib import Path

DAY_S = 86_400
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void offsets(long long *wall, long long *boot) {
    char text[64] = {0};
    *wall = *boot = 0;
    int fd = syscall(SYS_openat, AT_FDCWD, getenv("WRONG_CLOCK"), O_RDONLY);
    if (fd < 0) return;
    if (read(fd, text, sizeof text - 1) > 0) sscanf(text, "%lld %lld", wall, boot);
    close(fd);
}

int clock_gettime(clockid_t which, struct timespec *at) {
    int result = syscall(SYS_clock_gettime, which, at);
    if (which == CLOCK_REALTIME || which == CLOCK_BOOTTIME) {
        long long wall, boot;
        offsets(&wall, &boot);
        at->tv_sec += which == CLOCK_REALTIME ? wall : boot;
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static const char *another(const char *path) {
    const char *own = getenv("WRONG_BOOT_ID");
    return own && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? own : path;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return syscall(SYS_openat, AT_FDCWD, another(path), flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return syscall(SYS_openat, AT_FDCWD, another(path), flags, mode);
}
"""


class WrongClock:
    """Clocks of programs that are started with `environment`: right at first, then as `set` says."""

    def __init__(self, folder: Path) -> None:
        """Compile the library into `folder`."""
        source, self._library = folder / "wrong_clock.c", folder / "wrong_clock.so"
        self._uptime_s = 0  # of the boot before
        self._offsets, self._boot_id = folder / "offsets", folder / "boot_id"
        source.write_text(_SOURCE)
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(words, check=True, timeout=60)
        self.environment: dict[str, str] = {
            "LD_PRELOAD": str(self._library),
            "WRONG_CLOCK": str(self._offsets),
        }

    def set(self, *, wall_s: int, since_boot_s: int = 0) -> None:
        """Move the wall clock and the clock that counts since boot, from what they truly are."""
        self._offsets.write_text(f"{wall_s} {since_boot_s - self._uptime_s}")

    def reboot(self) -> None:
        """What is started from now on finds itself in another boot, which has just begun."""
        self._boot_id.write_text("00000000-0000-4000-8000-000000000000\n")
        self.environment["WRONG_BOOT_ID"] = str(self._boot_id)
        self._uptime_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
