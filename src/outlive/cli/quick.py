"""The fast paths of `outlive ps` and `outlive logs`: people and prompts ask often, and typer with its checks takes 0.2 s.

Whatever they do not understand at once they leave to typer, which explains mistakes far better.
"""

import gc
from collections.abc import Mapping, Sequence
from typing import Literal

_LIMIT = 50
_Kind = Literal["switch", "text", "count"]
_COMMON: Mapping[str, tuple[str, _Kind]] = {
    "--state-dir": ("state_dir", "text"),
    "--no-start": ("no_start", "switch"),
    "--json": ("as_json", "switch"),
}
_PS: Mapping[str, tuple[str, _Kind]] = {
    **_COMMON,
    "--all": ("all_of_them", "switch"),
    "-a": ("all_of_them", "switch"),
}
_LOGS: Mapping[str, tuple[str, _Kind]] = {
    **_COMMON,
    "--follow": ("follow", "switch"),
    "-f": ("follow", "switch"),
    "--since": ("since", "text"),
    "--tail": ("tail", "count"),
    "--grep": ("grep", "text"),
    "--ignore-case": ("ignore_case", "switch"),
    "-i": ("ignore_case", "switch"),
    "--raw": ("raw", "switch"),
}


def list_quickly(words: Sequence[str]) -> int | None:
    """Run `ps` with plain flags; None when there is anything else among the words."""
    read = _read(words, _PS)
    if read is None or read[0]:
        return None
    given = read[1]
    gc.disable()  # it ends soon, and what it imports makes no garbage: a twentieth of its time
    from outlive.cli.processes import connected, list_processes  # noqa: PLC0415 -- only when it is all ours

    as_json, all_of_them = bool(given.get("as_json")), bool(given.get("all_of_them"))
    with connected(_text(given, "state_dir"), no_start=bool(given.get("no_start"))) as client:
        return list_processes(
            client, all_of_them=all_of_them, group=None, tags=[], limit=_LIMIT, as_json=as_json
        )


def show_quickly(words: Sequence[str]) -> int | None:
    """Run `logs` with plain flags and one name; None when there is anything else among the words."""
    read = _read(words, _LOGS)
    if read is None or len(read[0]) != 1:
        return None
    (name,), given = read
    from outlive.cli.logs.log_view import LogView  # noqa: PLC0415 -- as above
    from outlive.cli.logs.logs import show_logs  # noqa: PLC0415 -- as above
    from outlive.discovery.state_folder import layout_of  # noqa: PLC0415 -- as above

    state_dir, tail = _text(given, "state_dir"), given.get("tail")
    view = LogView(
        follow=bool(given.get("follow")),
        since=_text(given, "since"),
        tail=tail if isinstance(tail, int) else None,
        grep=_text(given, "grep"),
        ignore_case=bool(given.get("ignore_case")),
        as_json=bool(given.get("as_json")),
        raw=bool(given.get("raw")),
    )
    no_start = bool(given.get("no_start"))
    return show_logs(layout_of(state_dir), name, view, state_dir=state_dir, no_start=no_start)


def _read(
    words: Sequence[str], flags: Mapping[str, tuple[str, _Kind]]
) -> tuple[list[str], dict[str, str | int | bool]] | None:
    """Return the names and the flags' values; None where a word is not as plain as that."""
    names: list[str] = []
    given: dict[str, str | int | bool] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            names.append(word)
            continue
        if word not in flags:
            return None
        name, kind = flags[word]
        if kind == "switch":
            given[name] = True
            continue
        value = next(rest, None)
        if value is None or value.startswith("-") or (kind == "count" and not _is_count(value)):
            return None
        given[name] = int(value) if kind == "count" else value
    return names, given


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 9


def _text(given: Mapping[str, str | int | bool], name: str) -> str | None:
    value = given.get(name)
    return value if isinstance(value, str) else None
