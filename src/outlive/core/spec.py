"""What the keeper is asked to run: `Spec`, a command after everything was resolved and decided.

Standard library only.

With it: `SharedEnvironment`, variables that many commands share.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

# Among the names of `Spec.secrets`, and the name of no variable (environ(7)): the caller's environment is
# passed beside the spec.
CALLER_ENVIRONMENT = "="

REPEATED = "repeated"  # the member of `meta` with what a start again asks for once more


class SharedEnvironment:
    """Variables in the environment of many commands, and their NAME=VALUE words, joined by NUL once for all
    of them.

    Joining them anew would take a fiftieth of the time of each start.
    """

    __slots__ = ("text", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self.text = "\0".join(map("=".join, values.items()))


class Spec(NamedTuple):
    """Everything that the keeper needs to run one command, and what the engine wants to find again (`meta`).

    No dataclass: a supervisor that imports `dataclasses` (with it `inspect`, `ast` and `tokenize`) takes 1.5
    MB more and a fifth longer to start. Always made with keywords.

    `secrets` are the names of variables whose values are passed beside the spec and stored in no file;
    `CALLER_ENVIRONMENT` stands there for a whole environment. `confinement` are the steps that the shim takes
    before the program runs (`native/shim/confine.h`) (None: none), `groups` the control groups that they
    make. `container` is the name of the container in which it runs (empty: none).

    `umask` and `nice` are those with which the command begins (None: 0o022, and its shim's own niceness).

    `shared_env` are variables beside `env`, and the two have no name in common; a spec that was read again
    has all of them in `env`.

    `program` is the resolved file, `argv[0]` what the command sees. `stdio` is "pipes", "merge" (one pipe) or
    "pty"; `stdin` is "none", "pipe" or "lent" (`keeper.supervisor.inputs`). Times are seconds, sizes bytes,
    None = no limit. `on_limit` is "truncate", "block" or "kill"; `after_exit` (what happens to descendants)
    "keep", "kill" or "wait".
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
    meta: Mapping[str, object] = MappingProxyType({})
