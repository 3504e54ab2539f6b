"""Fixtures of the keeper's tests: one keeper shared by what kills nobody, and those with settings."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlive.core.layout import LIBRARY_MARK
from outlive.discovery.runner_build import LIBRARY_FLAGS, LIBRARY_SOURCES, RUNNER_FLAGS
from tests.keeper.house import House


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("k") / "state") as shared:
        yield shared


@pytest.fixture
def build_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """A function that starts a keeper with settings: `build_house(OUTLIVE_KEEPER_IDLE_S="1")`."""
    with ExitStack() as houses:
        count = 0

        def build(**env: str) -> House:
            nonlocal count
            count += 1
            return houses.enter_context(House(tmp_path / f"state{count}", env=env))

        yield build


@pytest.fixture(name="hooked", scope="session")
def _hooked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose library calls back between its own system calls, and moves as little as it is told."""
    folder = tmp_path_factory.mktemp("hooked")
    (folder / "hooks.c").write_text(_HOOKS)
    if (compiler := shutil.which("gcc")) is None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS")
        pytest.skip("no gcc is here")
    library = folder / "library.so"
    checked = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    renamed = ("-Dioctl=hooked_ioctl", "-Dsplice=hooked_splice", "-Depoll_ctl=hooked_epoll_ctl", *checked)
    words = [compiler, *RUNNER_FLAGS, *LIBRARY_FLAGS, "-shared", "-nostdlib", "-o", str(library)]
    for source in (folder / "hooks.c", *LIBRARY_SOURCES):
        more = renamed if source in LIBRARY_SOURCES else ()
        words.append(made := str(folder / f"{source.name}.o"))
        subprocess.run(
            [compiler, *RUNNER_FLAGS, *LIBRARY_FLAGS, *more, "-c", "-o", made, str(source)], check=True
        )
    subprocess.run(words, check=True)
    content = library.read_bytes()
    program = folder / "program"
    program.write_bytes(content + len(content).to_bytes(8, "little") + LIBRARY_MARK)
    return program


_HOOKS = """
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))

static void (*empty)(int);
static size_t most = 1 << 20;

EXPORT void set_hooks(void (*found_empty)(int), size_t most_bytes) { empty = found_empty; most = most_bytes; }

static int refusals;

EXPORT void refuse_to_watch(int times) { refusals = times; }

int hooked_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (operation != EPOLL_CTL_ADD || refusals == 0)
        return epoll_ctl(epoll, operation, fd, event);
    refusals--;
    errno = ENOSPC;
    return -1;
}

int hooked_ioctl(int fd, unsigned long request, ...)
{
    va_list more;
    int *found, result;

    va_start(more, request);
    found = va_arg(more, int *);
    va_end(more);
    result = ioctl(fd, request, found);
    if (empty != 0 && *found == 0)
        empty(fd);
    return result;
}

ssize_t hooked_splice(int source, loff_t *from, int target, loff_t *to, size_t bytes, unsigned flags)
{
    return splice(source, from, target, to, bytes < most ? bytes : most, flags);
}
"""
