"""Starting a command without restrictions, by posix_spawn(3), which copies nothing of a shim's memory.

For commands with restrictions see `sandbox.confine`, which forks.
"""

import os
import signal

# What Python ignores must not stay ignored in a command (signal(7): ignored dispositions survive execve(2)).
_DEFAULT_SIGNALS = tuple(
    number for number in range(1, 65) if number not in {9, 19, 32, 33} and number in signal.valid_signals()
)


def spawn(
    program: bytes, argv: list[bytes], env: dict[bytes, bytes], ends: dict[str, int], *, umask: int
) -> int:
    """Start a program in a POSIX session of its own and return its pid; `ends` are its descriptors by the shim's letters.

    Raises:
        OSError: The program does not run, and never did.
    """
    own = os.umask(umask)  # inherited: posix_spawn(3) has no attribute for it
    try:
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=_file_actions(ends),
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    finally:
        os.umask(own)


def _file_actions(ends: dict[str, int]) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    if "T" in ends:
        # The POSIX session leader's first open of a terminal makes it the controlling one (tty_ioctl(4)).
        terminal = os.ttyname(ends["T"])
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        # A caller has lent its standard input: the terminal is for output, and for the signals of its keys.
        if "I" in ends:
            actions.append((os.POSIX_SPAWN_DUP2, ends["I"], 0))
        return actions
    return [
        (os.POSIX_SPAWN_DUP2, ends["I"], 0),
        (os.POSIX_SPAWN_DUP2, ends["O"], 1),
        (os.POSIX_SPAWN_DUP2, ends.get("E", ends["O"]), 2),
    ]
