"""What an option is: `Option`, a row of the table from which flags, help texts and documentation are made.

`option` declares one: it returns a dataclass field whose metadata carries everything known about it. The rows themselves stand in
`settings` and the modules beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from outlive.config.values import parse_port

# The direction in which a project's file may change a value: a smaller number, fewer or more words, a switch to one side, a
# smaller set of tools, a stricter verdict, a stronger profile, more redaction.
Tightening = Literal["lower", "subset", "superset", "on", "off", "narrower", "stricter", "stronger", "hides"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting as data; `config.settings.OPTIONS` has the only instances.

    Args:
        name: Attribute of `Settings`; its unit is part of the name.
        kind: The kind of value in one word, as help texts show it.
        parse: Text to value; raises ValueError with a sentence.
        default: The value without flag and environment, as people write it.
        unit: Unit of the value, "" where there is none.
        sentence: What the option does.
        env: Names in the environment, the first that is set wins.
        flag: The flag of `outlive serve`.
        example: A value to copy.
        project: In which direction a project's configuration file may change it; None: not at all.
    """

    name: str
    kind: str
    parse: Callable[[str], object]
    default: str
    unit: str
    sentence: str
    env: tuple[str, ...]
    flag: str
    example: str
    project: Tightening | None = None

    @property
    def key(self) -> str:
        """Its name in a configuration file: the flag's words with underscores."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def separator(self) -> str:
        """The character between the words of a list: a line end for patterns, which may hold commas."""
        return "\n" if self.kind == "patterns" else ","

    @property
    def is_secret(self) -> bool:
        """Whether the value is never shown."""
        return self.kind in {"key", "addresses"}  # an address may have a token in it

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.kind == "switch"


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
    """Declare one option; its first environment name is OUTLIVE_ and the flag, those in `env` follow."""
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
    """Declare the port of a frontend."""
    sentence = f"Port of {door}; 0 takes any free one, off none."
    return option("port", parse_port, default, sentence, flag=flag, env=env)
