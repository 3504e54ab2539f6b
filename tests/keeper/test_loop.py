"""The supervisor's event loop: what comes when within a turn."""

import os
import time
from functools import partial

from outlive.keeper.supervisor.loop import Loop


def test_what_a_handler_puts_off_comes_after_this_turns_hooks() -> None:
    """An end is told (by a hook) before its process is let go of (put off by a handler)."""
    happened: list[str] = []
    loop = Loop(happened.append)
    read_end, write_end = os.pipe()

    def handler(_events: int) -> None:
        happened.append("handled")
        loop.unwatch(read_end)
        loop.later(0.0, lambda: happened.append("put off"))

    loop.watch(read_end, handler)
    loop.later(60.0, lambda: happened.append("never"))
    loop.after_turns(lambda: happened.append("hook"))
    os.write(write_end, b"x")
    loop.turn()
    assert happened == ["handled", "hook"]
    loop.turn()
    assert happened == ["handled", "hook", "put off", "hook"]
    os.close(read_end)
    os.close(write_end)


def test_a_cancelled_timer_never_fires_and_a_failing_one_does_not_stop_the_others() -> None:
    """One process's trouble must not stop the others."""
    happened: list[str] = []
    loop = Loop(happened.append)

    def fail() -> None:
        raise ValueError("trouble")

    loop.later(0.0, fail)
    loop.later(0.0, lambda: happened.append("second"))
    loop.later(0.0, lambda: happened.append("cancelled")).cancel()
    loop.turn()
    trouble, second = happened
    assert trouble.startswith("Traceback: ValueError: trouble at ")
    assert trouble.endswith(f"{__file__}:{fail.__code__.co_firstlineno + 1} fail")
    assert second == "second"


def test_what_is_looked_at_regularly_is_looked_at_together_and_a_second_after_work() -> None:
    happened: list[str] = []
    loop = Loop(happened.append)

    def fail() -> bool:
        raise ValueError("trouble")

    def look(name: str) -> bool:
        happened.append(name)
        return False

    loop.regularly(fail)
    loop.regularly(partial(look, "one"))
    loop.regularly(partial(look, "other"))
    for _ in range(2):
        loop.turn()
        trouble, *looks = happened
        assert trouble.startswith("Traceback: ValueError: trouble at ")
        assert looks == ["one", "other"]
        happened.clear()
        for _ in range(3):
            loop.look_soon()


def test_thousands_of_timers_that_are_due_at_once_leave_room_for_what_is_ready() -> None:
    """A mass stop has a timer for each tree: the guardian's ping between them is answered (it ends who is
    silent for 3 s).
    """
    fired: list[int] = []
    heard: list[int] = []
    loop = Loop(print)
    read_end, write_end = os.pipe()

    def work(number: int) -> None:
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            pass
        fired.append(number)

    for number in range(30):
        loop.later(0.0, partial(work, number))
    loop.turn()
    loop.watch(read_end, lambda _events: heard.append(len(fired)))
    os.write(write_end, b"x")
    while len(fired) < 30:
        loop.turn()
    assert fired == list(range(30))
    assert 0 < heard[0] < 30
    os.close(read_end)
    os.close(write_end)
