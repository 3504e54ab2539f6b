"""A stand-in for the runner, where its own tests are not meant: it listens, answers nothing, and lives."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["compile_runner", "runner_for_tests"]

_LISTENS = """
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (count < 3 || strlen(words[2]) >= sizeof address.sun_path) return 64;
    strcpy(address.sun_path, words[2]);
    unlink(words[2]);
    signal(SIGCHLD, SIG_IGN);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 64)) return 1;
    for (;;) close(accept(listener, 0, 0));
}
"""


def runner_for_tests(folder: Path) -> str:
    """Return the file of a program that listens as the runner does."""
    return compile_runner(folder / "listens", _LISTENS)


def compile_runner(path: Path, source: str) -> str:
    """Compile a static program, and return its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("OUTLIVE_REQUIRE_DOCKER"):
            pytest.fail("a C compiler is missing")
        pytest.skip("a C compiler is missing")
    subprocess.run(
        [compiler, "-static", "-Os", "-x", "c", "-o", path, "-"],
        input=source.encode(),
        check=True,
        timeout=60,
    )
    return str(path)
