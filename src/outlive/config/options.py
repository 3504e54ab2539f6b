"""What an option is: `Option`, one row of the table from which flags, help texts and documentation are made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# How a project's file may change a value: a smaller number, fewer or more words, a switch to one side, a smaller set,
# a stricter verdict, a stronger profile, more that is hidden.
Tightening = Literal["lower", "subset", "superset", "on", "off", "narrower", "stricter", "stronger", "hides"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting as data; `config.settings.OPTIONS` has the only instances.

    Args:
        name: Attribute of `Settings`; its unit is part of the name.
        kind: What the value is, in one word, as help texts show it.
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
        """What stands between the words of a list; patterns may hold commas."""
        return "\n" if self.kind == "patterns" else ","

    @property
    def is_secret(self) -> bool:
        """Whether the value is never shown."""
        return self.kind in {"key", "addresses"}  # an address may have a token in it

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.kind == "switch"
