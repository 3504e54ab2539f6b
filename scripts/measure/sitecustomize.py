"""Lets coverage see the keeper: used only with PYTHONPATH=scripts/measure:src, as `make coverage` does.

The keeper's processes start without site packages and with a small environment, on purpose; coverage begins
in a site package and is told so by the environment. This file gives both back to the keeper's processes, and
only to those, by looking at what is started. The product itself has no hook for it.
"""

import os
import subprocess
from typing import Any

_KEEPER_ENTRY = os.path.join("outlive", "keeper", "__main__.py")
_HANDED_ON = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "START_TRACE", "PYTHONPATH")

_popen_init = subprocess.Popen.__init__
_posix_spawn = os.posix_spawn


def _is_keeper(argv: Any) -> bool:
    return isinstance(argv, (list, tuple)) and any(str(word).endswith(_KEEPER_ENTRY) for word in argv)


def _with_site(argv: Any) -> list[Any]:
    return [word for word in argv if word != "-S"]


def _measured(env: Any) -> dict[str, str]:
    return {**env, **{name: os.environ[name] for name in _HANDED_ON if name in os.environ}}


def _init(self: Any, args: Any, *rest: Any, **options: Any) -> None:
    if _is_keeper(args) and options.get("env") is not None:
        args = _with_site(args)
        options["env"] = _measured(options["env"])
    _popen_init(self, args, *rest, **options)


def _spawn(path: Any, argv: Any, env: Any, **options: Any) -> int:
    if _is_keeper(argv):
        argv = _with_site(argv)
        env = _measured(env)
    return _posix_spawn(path, argv, env, **options)


subprocess.Popen.__init__ = _init  # type: ignore[method-assign]
os.posix_spawn = _spawn
