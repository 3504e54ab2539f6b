"""The fast path of `outlive ps`: people and prompts ask often, and typer with its checks takes 0.2 s.

Whatever it does not understand at once it leaves to typer, which explains mistakes far better.
"""

from collections.abc import Sequence

__all__ = ["list_quickly"]

_LIMIT = 50


def list_quickly(words: Sequence[str]) -> int | None:
    """Run `ps` with plain flags; None when there is anything else among the words."""
    state_dir: str | None = None
    is_all = as_json = no_start = False
    rest = iter(words)
    for word in rest:
        if word in {"--all", "-a"}:
            is_all = True
        elif word == "--json":
            as_json = True
        elif word == "--no-start":
            no_start = True
        elif word == "--state-dir":
            state_dir = next(rest, None)
            if state_dir is None:
                return None
        else:
            return None
    from outlive.cli.process_verbs import connected, list_processes  # noqa: PLC0415 -- only when it is all ours

    with connected(state_dir, no_start=no_start) as client:
        return list_processes(client, all_of_them=is_all, group=None, tags=[], limit=_LIMIT, as_json=as_json)
