"""What the keeper is asked to run: `Spec`, a command after everything was resolved and decided.

Variables that many commands share: `SharedEnvironment`. Standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from outlive.core.frozen import made_quickly


class SharedEnvironment:
    """Variables that stand in the environment of many commands, and their NAME=VALUE words, joined by NUL once for all of them.

    A start that writes them down anew spends a fiftieth of its time on that.
    """

    __slots__ = ("text", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take the values; nobody may change them any more."""
        self.values = values
        self.text = "\0".join(map("=".join, values.items()))


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Everything the keeper needs to run one command, and what the engine wants to find again (`meta`).

    `secrets` are the names of variables whose values are handed over beside the spec and kept in no file. `confinement`
    are the steps that `keeper.confine` takes before the program runs (None: none), `groups` the control groups that they make.
    `container` is the name of the container that it runs in (empty: none).

    `umask` and `nice` are what the command begins with (None: 0o022, and its shim's own niceness).

    `shared_env` is what many commands have in their environment beside `env`, which has none of its names; read again, a spec has
    all of it in `env`.

    `program` is the resolved file, `argv[0]` what the command sees. `stdio` is "pipes", "merge" (one pipe) or
    "pty"; `stdin` "none", "pipe" or "lent" (`keeper.lending`). Times in seconds, sizes in bytes, None = no limit. `on_limit` is
    "truncate", "block" or "kill"; `after_exit` (what happens to descendants) "keep", "kill" or "wait".
    """

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    shared_env: SharedEnvironment | None = None
    stdio: str = "pipes"
    stdin: str = "none"
    rows: int = 24
    cols: int = 80
    timeout_s: float | None = None
    grace_s: float = 10.0
    output_limit: int | None = None
    on_limit: str = "truncate"
    after_exit: str = "keep"
    secrets: tuple[str, ...] = ()
    confinement: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ()
    container: str = ""
    umask: int | None = None
    nice: int | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
