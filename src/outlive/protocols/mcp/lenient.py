"""Arguments as models send them, turned into those that a tool takes (promise S4.13.lenient). Pure.

Models repeat what other tools have taught them: "5" for 5, one id for a list of one, `cmd` for `command`,
`action: "kill"`. Where only one thing can be meant, it is taken; everything else is refused with the
arguments that there are, and the likeliest one first.
"""

import contextlib
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from outlive.core.documents import BadDocument, decode_json
from outlive.core.durations import UNITS_S, split_duration
from outlive.core.errors import SLUGS, InvalidRequest
from outlive.operations.requests import MAX_S


def _by_other_name(rows: Mapping[str, str]) -> dict[str, str]:
    return {other: name for name, others in rows.items() for other in others.split()}


# These say nothing that matters here, and are left out.
_LEFT_OUT = (
    "dangerouslyDisableSandbox description justification prefix_rule sandbox_permissions explanation "
    "reason title max_output_tokens capture_output"
)
# Other names under which models send an argument; None: it is left out.
SYNONYMS: Mapping[str, str | None] = MappingProxyType(
    dict.fromkeys(_LEFT_OUT.split())
    | _by_other_name(
        {
            "command": "cmd commands bash",
            "script": "code",
            "cwd": "working_directory workdir directory dir",
            "env": "environment",
            "pty": "tty terminal",
            "timeout": "timeout_s timeout_seconds timeout_ms",
            "wait_s": "wait wait_seconds wait_ms yield_time_ms",
            "wait_for": "until",
            "id": "process_id command_id session_id process bash_id shell_id",
            "ids": "process_ids",
            "grep": "pattern filter search",
            "tail": "lines last",
            "head": "first",
            "cursor": "offset",
            "budget": "max_output max_output_bytes max_chars",
            "text": "input chars data stdin",
            "keys": "key",
            "background": "run_in_background is_background",
        }
    )
)
# What these say is so in any case; with another value they are refused.
_SAYS_NOTHING: Mapping[str, object] = MappingProxyType({"restart": False, "shell": True})
# Other kinds of the same thing: where a tool has no such argument, but the other.
_ELSE = MappingProxyType({"id": "ids", "ids": "id", "timeout": "wait_s"})
# For models, which learn a form from one example faster than from a type.
EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "command": '"make test"',
        "argv": '["make", "test"]',
        "script": '"set -e\\nmake\\n"',
        "cwd": '"src"',
        "env": '{"PORT": "3000"}',
        "env_secrets": '{"TOKEN": "…"}',
        "tags": '{"team": "web"}',
        "pty": "true",
        "wait_s": "30",
        "timeout": "600",
        "wait_for": '"ready", or "port 3000"',
        "key": '"build-1"',
        "name": '"web"',
        "workspace": '"main"',
        "id": '"p1"',
        "ids": '["p1", "p2"]',
        "grep": '"error|failed"',
        "tail": "50",
        "head": "50",
        "context": "2",
        "cursor": '"0"',
        "budget": "4000",
        "text": '"y\\n"',
        "keys": '["ctrl-c"]',
        "eof": "true",
        "all": "true",
        "all_projects": "true",
        "limit": "50",
        "action": '"pause"',
        "signal": '"INT"',
        "grace": "5",
    }
)
_ACTIONS: Mapping[str, str] = MappingProxyType(
    _by_other_name(
        {"cancel": "kill stop terminate end", "pause": "suspend", "resume": "continue", "signal": "interrupt"}
    )
)
_KEYS: Mapping[str, str] = MappingProxyType(
    {"return": "enter", "escape": "esc", "page_up": "pageup", "page_down": "pagedown", "del": "delete"}
)
_CONTROL_KEY = re.compile(r"(?:ctrl[-+ ]|control[-+ ]|c-|\^)([a-z])", re.IGNORECASE)
_PORT = re.compile(r"(?:port[ =:]*|:)([0-9]{1,5})", re.IGNORECASE)
# Characters of output in an answer: fewer hold no head, mark and tail, and a longer line than the most is
# read in pieces.
LEAST_BUDGET, MOST_BUDGET = 100, 1_000_000
MOST_LISTED = 200
# The longest time that is taken without a unit: what is larger has mostly been meant as milliseconds.
_DAY_S = 86_400


# What a float holds exactly, one by one: a larger one has lost the digits that would make it a whole number.
_MAX_EXACT = 2**53


def whole_numbers(value: object) -> object:
    """Return decoded JSON in which whole numbers are integers, wherever they stand: JSON does not tell 5.0
    from 5.

    A member that takes a float takes an integer as well.
    """
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value
        case list():
            return [whole_numbers(one) for one in value]
        case dict():
            return {name: whole_numbers(one) for name, one in value.items()}
        case _:
            return value


def accept_arguments(
    raw: Mapping[str, object], shape: type[msgspec.Struct], *, listed: Sequence[str]
) -> dict[str, object]:
    """Return the arguments of a call with the names and types of `shape`, as far as only one thing can be
    meant.

    None of them is null. `listed` are those that the tool's schema shows.

    Raises:
        InvalidRequest: An argument is unknown, or a time makes no sense; the hint says what the tool takes.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    names = list(fields)
    found: dict[str, object] = {}
    # codex's older shell tool takes the words of a command as `command`.
    if isinstance(words := raw.get("command"), list) and "argv" in names and "argv" not in raw:
        raw = {"argv": words, **{name: value for name, value in raw.items() if name != "command"}}
    for given, value in raw.items():
        if value is _SAYS_NOTHING.get(given) and given not in names:
            continue
        name = _name_of(given, names, raw, listed=listed)
        if name is None:
            continue
        if given.endswith("_ms") and isinstance(value, int | float):
            value = f"{value}ms"  # noqa: PLW2901 -- the same time, with its unit
        # Two spellings of one argument may differ, and which one is meant cannot be known.
        if name in found:
            text = f"{given[:40]!r} is another name for {name!r}, and both were sent."
            raise InvalidRequest("invalid_params", text, hint=f"Send {name!r} alone.")
        field = fields.get(name)
        # Variables are texts: there, 3.0 is not 3.
        value = value if isinstance(value, dict) else whole_numbers(value)  # noqa: PLW2901 -- the same number
        # By the name inside, which has the unit: what is said in milliseconds is read in its own way.
        found[name] = _VALUES.get(name if field is None else field.name, _unchanged)(value)
        if field is not None:
            found[name] = _fitted(name, found[name], _kind_of(field.type))
    # A wait that was asked for as well stands: it says more exactly what the caller wants.
    if found.pop("background", False) not in (False, "false", "False", 0, "0"):
        found.setdefault("wait_s", 0)
    if "action" in names and "signal" in found:
        found.setdefault("action", "signal")
    for name, field in fields.items():
        if field.required and name not in found:
            raise InvalidRequest("invalid_params", f"{name} is missing.", hint=_example(name))
    return found


def refused_value(error: InvalidRequest, members: Mapping[str, object]) -> InvalidRequest:
    """Return the refusal of a value in words for a model, with an example; the error itself where it names no
    argument.
    """
    name = re.split(r"[.\[]", str((error.details or {}).get("parameter", "")))[0]
    if name not in EXAMPLES or name not in members or error.hint != SLUGS[error.code][1]:
        return error
    # A value of `env_secrets` may be a secret that no redaction knows yet.
    given = "this" if name == "env_secrets" else msgspec.json.encode(members[name], enc_hook=str).decode()
    text = f"{name}: {given[:60]} cannot be taken for it."
    return InvalidRequest(error.code, text, hint=_example(name), details=error.details)


def _example(name: str) -> str:
    return f"For example {name}={EXAMPLES[name]}." if name in EXAMPLES else ""


def _kind_of(type_: Any) -> Any:  # noqa: ANN401 -- a type, however it is written
    """Return a type without what it is annotated with, and without null."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) in {UnionType, Union}:
        (*kinds,) = (_kind_of(one) for one in get_args(type_) if one is not NoneType)
        return kinds[0] if len(kinds) == 1 else type_
    return type_


def _fitted(name: str, value: object, kind: Any) -> object:  # noqa: ANN401 -- a type
    """Return a value as an argument of a kind takes it: a number as a text, "yes" as true.

    Raises:
        InvalidRequest: It is none of the argument's words.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is str and is_number and name not in {"command", "script"}:  # nobody runs a 5
        return str(value)
    if kind is bool and isinstance(value, str):
        return _SWITCHES.get(value.strip().lower(), value)
    if get_origin(kind) is Literal:
        _check_choice(name, value, get_args(kind))
    return value


def _name_of(given: str, names: list[str], raw: Mapping[str, object], *, listed: Sequence[str]) -> str | None:
    """Return the argument that is meant; None for one that is left out.

    Raises:
        InvalidRequest: No argument is meant for certain; the message names the likeliest.
    """
    if given in names:
        return given
    other = SYNONYMS.get(given, given)
    if other is None:
        return None
    if other not in names and _ELSE.get(other) in names:
        other = _ELSE[other]
    is_known = other in names or (other == "background" and "wait_s" in names)
    # The real name beside a synonym: the synonym is refused, so that nothing is dropped silently.
    if is_known and (other == given or other not in raw):
        return other
    likely = difflib.get_close_matches(given, [*listed, *names], n=1, cutoff=0.6)
    meant = f" Did you mean {likely[0]!r}?" if likely else ""
    hint = f"The tool's arguments are: {', '.join(listed)}."
    raise InvalidRequest("invalid_params", f"There is no argument {given[:40]!r}.{meant}", hint=hint)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of an argument's, naming the likeliest one first."""
    if value in choices:
        return
    likely = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.6)
    meant = f" Did you mean {likely[0]!r}?" if likely else ""
    text = f"{name}: {str(value)[:40]!r} is none of its values.{meant}"
    hint = f"The values are: {', '.join(choices)}."
    if name == "stdin":
        hint += " A text that it shall read stands in the command: cat <<'EOF' …"
    raise InvalidRequest("invalid_params", text, hint=hint)


def _unchanged(value: object) -> object:
    return value


def _identified(value: object) -> object:
    """Return a short id for its number, and the one of a list of one.

    Raises:
        InvalidRequest: It is a list of several.
    """
    if isinstance(value, list):
        if len(value) != 1:
            text = f"It takes one id, not {len(value)}."
            raise InvalidRequest("invalid_params", text, hint="wait(ids=[…]) shows what is new of several.")
        return _identified(value[0])
    is_number = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.isascii() and value.isdigit()
    )
    return f"p{value}" if is_number else value


def _listed(value: object) -> object:
    """Return a list of one for the one; "p1, p2" is two."""
    if isinstance(value, str):
        # Some hosts pass a list as its JSON text.
        value = [word for word in re.split(r"[\s,\"']+", value.strip("[] ")) if word]
    return list(map(_identified, value)) if isinstance(value, list) else [_identified(value)]


def _variables(value: object) -> object:
    """Return variables as texts: models write PORT as a number, and ["A=1"] for {"A": "1"}."""
    words = [value] if isinstance(value, str) else value
    if isinstance(words, list) and all(isinstance(one, str) and "=" in one for one in words):
        return dict(one.split("=", 1) for one in words)
    if not isinstance(value, dict):
        return value
    return {
        name: str(one).lower() if isinstance(one, bool) else str(one) if isinstance(one, int | float) else one
        for name, one in value.items()
    }


def _keyed(value: object) -> object:
    """Return a list of keys by their names here: "ctrl+c", "^C" and "C-c" are ctrl-c, "return" is enter."""
    keys = [value] if isinstance(value, str) else value
    if not isinstance(keys, list):
        return value
    return [_key_named(key) if isinstance(key, str) and len(key) > 1 else key for key in keys]


def _key_named(key: str) -> str:
    control = _CONTROL_KEY.fullmatch(key)
    return f"ctrl-{control[1].lower()}" if control is not None else _KEYS.get(key.lower(), key)


def _awaited(value: object) -> object:
    """Return what a wait is for: texts and ports, whichever comes first.

    "port 3000" and ":3000" are ports. A bare number is a text, such as a status.
    """
    if isinstance(value, dict):
        return {name: _several(one) if name in {"text", "port"} else one for name, one in value.items()}
    if isinstance(value, str) and value.startswith("["):
        # Some hosts pass a list as its JSON text.
        with contextlib.suppress(BadDocument):
            found_list = decode_json(value)
            if isinstance(found_list, list) and all(isinstance(one, str) for one in found_list):
                value = found_list
    if isinstance(value, bool) or not isinstance(value, str | int | list):
        return value
    found: dict[str, list[object]] = {"text": [], "port": []}
    for one in _several(value):
        text = str(one) if isinstance(one, int) and not isinstance(one, bool) else one
        port = _PORT.fullmatch(text.strip()) if isinstance(text, str) else None
        if port is not None:
            found["port"].append(int(port[1]))
        elif not isinstance(text, str) or text.strip():
            found["text"].append(text)
    return found if any(found.values()) else None


def _several(value: object) -> list[object]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def _acted(value: object) -> object:
    """Return what a control does.

    Raises:
        InvalidRequest: It is none of its actions.
    """
    word = value.strip().lower() if isinstance(value, str) else value
    action = _ACTIONS.get(word, word) if isinstance(word, str) else value
    _check_choice("action", action, ("pause", "resume", "signal", "cancel"))
    return action


def _bounded(value: object) -> object:
    """Return a command's time limit in seconds.

    A plain number of more than a day is milliseconds that somebody took for seconds: only a unit says that it
    is meant.

    Raises:
        InvalidRequest: It is that, or no time.
    """
    seconds, has_unit = _seconds(value)
    if seconds is None:
        return value
    if seconds > _DAY_S and not has_unit:
        text = f"timeout: {seconds:g} seconds are more than a day."
        hint = (
            f'It is in seconds, not milliseconds: did you mean {seconds / 1000:g}? Write "2d" for two days.'
        )
        raise InvalidRequest("invalid_params", text, hint=hint, details={"parameter": "timeout"})
    return min(seconds, MAX_S) or None  # 0 means none to every tool that models know


def _timed(value: object) -> object:
    seconds, _ = _seconds(value)
    return value if seconds is None else seconds


def _budgeted(value: object) -> object:
    """Return a number of characters that an answer can have: what is too small or too large can only mean as
    few or as many as may be.
    """
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool):
        return value
    return min(max(number, LEAST_BUDGET), MOST_BUDGET)


def _seconds(value: object) -> tuple[float | None, bool]:
    """Return a time in seconds and whether it named its unit; None for what is no time."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), False
    number, unit = split_duration(value) if isinstance(value, str) else (None, "")
    if number is None:
        return None, False
    return number * UNITS_S[unit or "s"], bool(unit)


def _counted(value: object) -> object:
    """Return how many lines of an end: `tail -50` is 50, too."""
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _limited(value: object) -> object:
    """Return how many rows a list has: as many as may be, where that is fewer."""
    return min(value, MOST_LISTED) if isinstance(value, int) else value


_SWITCHES: Mapping[str, bool] = MappingProxyType({"yes": True, "on": True, "no": False, "off": False})

_VALUES: Mapping[str, Callable[[object], object]] = MappingProxyType(
    {
        "id": _identified,
        "ids": _listed,
        "env": _variables,
        "keys": _keyed,
        "wait_for": _awaited,
        "for": _awaited,
        "action": _acted,
        "timeout": _bounded,
        "wait_s": _timed,
        "grace": _timed,
        "budget": _budgeted,
        "tail": _counted,
        "limit": _limited,
    }
)
