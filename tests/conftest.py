"""What every test gets: the fixtures of tests/support, a watch over the event loop, and the storm's size.

Owns only what is true for all folders; a folder's own fixtures live in its own conftest.py.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from blockbuster import BlockBuster
from hypothesis import settings

from outlive.extensions.contract import extensions

# The mark comes first: the fixtures import it, and pytest looks into a plugin's assertions when it imports
# that itself.
pytest_plugins = ["tests.support.run_mark", "tests.support.fixtures", "tests.extensions.ray.shared_cluster"]


# How long an example takes says more about the machine than about the code.
settings.register_profile("outlive", deadline=None)
settings.load_profile("outlive")

# A server that compiles its changed sources anew at each start takes twice as long, and the tests start
# hundreds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What nohup or a shell's background job makes us ignore, every command of a test would ignore, too
# (signal(7)).
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


class _FailureLines:
    """Names what has failed when it fails: a run takes minutes, and one that is killed prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for each failure."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"FAILED at once: {report.nodeid} ({report.when})")


def pytest_configure(config: pytest.Config) -> None:
    """Workers report to the run that has started them, which writes."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailureLines(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among a million new objects that all stay, and never look at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


# What bounds a command differs between root and an ordinary user; a runner's PID namespace needs root.
_WALLS = {"contained", "escapes", "sandbox"}  # of tests/attacks those that mark themselves


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of walls, by their folder, and those with a Docker daemon of their own."""
    if "own_dockerd" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.root("only root can start a Docker daemon"))
    if _WALLS.intersection(item.path.relative_to(item.config.rootpath).parts):
        item.add_marker("walls")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only root can do, with its reason."""
    if os.geteuid() != 0 and (found := item.get_closest_marker("root")) is not None:
        pytest.skip(f"not root: {found.args[0]}")


@pytest.fixture(scope="session")
def loop_watch() -> BlockBuster:
    """A watch over the event loop; making one for each test would be a tenth of what most tests cost."""
    extensions()  # a server finds them before its loop runs
    watch = BlockBuster("outlive")
    # In /proc, where nothing waits (decisions 70 and 91).
    watch.functions["os.listdir"].can_block_in("outlive/kernel/processes.py", "all_pids")
    for name in ("os.scandir", "os.readlink"):
        for module in ("processes", "callers"):
            watch.functions[name].can_block_in(
                f"outlive/kernel/{module}.py", {"sockets_of", "_socket_inode", "_namespace"}
            )
    # coverage's tracer runs inside our frames, and waits while another thread enters a file for the first
    # time.
    watch.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", {"lock_data"})
    return watch


@pytest.fixture(autouse=True)
def event_loop_watch(loop_watch: BlockBuster) -> Iterator[None]:
    """Fail a test in which our code blocks the event loop; tests themselves may block it."""
    loop_watch.activate()
    yield
    loop_watch.deactivate()


@pytest.fixture(scope="session")
def storm_seed() -> int:
    """The seed of randomised fault tests; STORM_SEED repeats a failure."""
    return int(os.environ.get("STORM_SEED", "1"))


@pytest.fixture(scope="session")
def storm_kills() -> int:
    """How many kills a storm makes; STORM_KILLS shortens it where time is short."""
    return int(os.environ.get("STORM_KILLS", "300"))
