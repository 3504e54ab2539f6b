"""How a setting is declared, once: `option`, a dataclass field that carries everything known about it."""

from collections.abc import Callable
from dataclasses import field
from typing import Any

from outlive.config.options import Tightening
from outlive.config.values import parse_port


def option(
    kind: str,
    parse: Callable[[str], object],
    default: str,
    sentence: str,
    *,
    flag: str,
    env: tuple[str, ...] = (),
    unit: str = "",
    example: str = "",
    project: Tightening | None = None,
) -> Any:  # noqa: ANN401 -- a dataclass field stands where the value will be; `field` itself is typed like this
    """Declare one option; its environment names begin with ours, the documents' own names follow."""
    ours = "OUTLIVE_" + flag.removeprefix("--").replace("-", "_").upper()
    row = {
        "kind": kind,
        "parse": parse,
        "default": default,
        "sentence": sentence,
        "unit": unit,
        "flag": flag,
        "env": (ours, *env),
        "example": example or default,
        "project": project,
    }
    return field(metadata=row)


def port(default: str, door: str, *, flag: str, env: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 -- as `option`
    """Declare the port of a door."""
    sentence = f"Port of {door}; 0 takes any free one, off none."
    return option("port", parse_port, default, sentence, flag=flag, env=env)
