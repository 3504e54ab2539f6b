"""The fast path of `outlive run`: what stands before a command should cost it little, and typer takes 0.1 s.

Whatever it does not understand at once it leaves to typer, which explains mistakes far better.
"""

from collections.abc import Callable, Sequence

_SWITCHES: dict[str, tuple[str, object]] = {
    "-d": ("is_detached", True),
    "--detach": ("is_detached", True),
    "--pty": ("pty", True),
    "--no-pty": ("pty", False),
    "--json": ("as_json", True),
}
_VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "-c": ("line", str),
    "--shell": ("line", str),
    "--timeout": ("timeout_s", float),
    "--grace": ("grace_s", float),
    "--wait-for": ("wait_for", str),
    "--cwd": ("cwd", str),
    "--profile": ("profile", str),
    "--backend": ("backend", str),
    "--image": ("image", str),
    "--isolation": ("isolation", str),
    "-g": ("group", str),
    "--group": ("group", str),
    "--group-limit": ("group_limit", int),
    "--detach-keys": ("detach_keys", str),
}
_LISTS = {"--tag": "tags", "--env": "env", "--secret": "secrets", "--limit": "limits"}


def run_quickly(words: Sequence[str]) -> int | None:
    """Run `run` with flags as help shows them; None when there is anything else among the words."""
    found: dict[str, object] = {}
    state_dir: str | None = None
    no_start = False
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word in _SWITCHES:
            name, value = _SWITCHES[word]
            found[name] = value
        elif word == "--no-start":
            no_start = True
        elif not rest:
            return None
        elif word == "--state-dir":
            state_dir = rest.pop(0)
        elif word in _LISTS:
            found[_LISTS[word]] = (*found.get(_LISTS[word], ()), rest.pop(0))  # type: ignore[misc] # a tuple
        elif word in _VALUES:
            name, read = _VALUES[word]
            try:
                found[name] = read(rest.pop(0))
            except ValueError:
                return None
        else:
            return None
    if not rest and "line" not in found:
        return None
    from outlive.cli.foreground.plan import RunOptions  # noqa: PLC0415 -- only when it is all ours
    from outlive.cli.foreground.run import run_command  # noqa: PLC0415 -- as above

    options = RunOptions(argv=tuple(rest), **found)  # type: ignore[arg-type] # by the tables above
    return run_command(options, state_dir=state_dir, no_start=no_start)
