"""Variables that decide what a name means, or make a shell run something first: `deciding_variables`. Pure.

Who may choose them chooses programs. Sources: bash(1), "Shell Variables", "INVOCATION" and "ENVIRONMENT"; dash(1);
ld.so(8); locale(7) (a locale of one's own decides which characters are blanks between words).
"""

from collections.abc import Mapping

from outlive.core.command import Command

_NAMES = frozenset(
    {
        "BASHOPTS",
        "BASH_ENV",
        "BASH_LOADABLES_PATH",
        "ENV",
        "EXECIGNORE",
        "GCONV_PATH",
        "IFS",
        "LOCPATH",
        "MUSL_LOCPATH",
        "PATH",
        "POSIXLY_CORRECT",
        "PS4",
        "SHELLOPTS",
    }
)
_PREFIXES = ("BASH_FUNC_", "LD_")


def is_deciding(name: str) -> bool:
    """Tell whether a variable decides what runs."""
    return name in _NAMES or name.startswith(_PREFIXES)


def deciding_variables(command: Command, own: Mapping[str, str]) -> list[str]:
    """Return the deciding variables that a command sets to something else than the server itself has.

    What is merely left out decides nothing, but for PATH: without it a shell has one of its own.
    """
    given = {**command.env, **command.env_secrets}
    changed = [name for name, value in given.items() if is_deciding(name) and value != own.get(name)]
    if not command.inherits_env and "PATH" not in given and "PATH" in own:
        changed.append("PATH")
    return changed
