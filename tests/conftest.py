"""What every test gets: the fixtures of tests/support, a watch over the event loop, and the storm's size.

Owns only what is true for all folders; a folder's own fixtures live in its own conftest.py.
"""

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import settings

pytest_plugins = ["tests.support.fixtures", "tests.support.run_mark"]


# How long an example takes says more about the machine than about the code.
settings.register_profile("outlive", deadline=None)
settings.load_profile("outlive")

# A server that compiles its changed sources anew at each start takes twice as long, and the tests start hundreds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What nohup or a shell's background job makes us ignore, every command of a test would ignore, too (signal(7)).
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what has failed when it fails: a run takes minutes, and one that is killed prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED at once: {report.nodeid} ({report.when})", file=sys.__stderr__, flush=True)


@pytest.fixture(autouse=True)
def event_loop_watch() -> Iterator[None]:
    """Fail a test in which our code blocks the event loop; tests themselves may block it."""
    with blockbuster_ctx("outlive") as watch:
        holders = (
            "outlive/server/access/socket_table.py"  # in /proc, where nothing waits (decisions 70 and 91)
        )
        watch.functions["os.listdir"].can_block_in(holders, "_sockets")
        for name in ("os.scandir", "os.readlink"):
            watch.functions[name].can_block_in(
                "outlive/keeper/common/callers.py", {"sockets_of", "_socket_inode"}
            )
        yield


@pytest.fixture(scope="session")
def storm_seed() -> int:
    """The seed of randomised fault tests; STORM_SEED repeats a failure."""
    return int(os.environ.get("STORM_SEED", "1"))


@pytest.fixture(scope="session")
def storm_kills() -> int:
    """How many kills a storm makes; STORM_KILLS shortens it where time is short."""
    return int(os.environ.get("STORM_KILLS", "300"))
