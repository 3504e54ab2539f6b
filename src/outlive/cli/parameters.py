"""How a verb says what it takes: `Parameter`, `takes`, and the parameters that many verbs share. Data only.

One declaration serves the parser (`parser`), the help page (`help_page`) and the shell's completion
(`completion`). Named tuples instead of dataclasses: `outlive --help` imports this, and dataclasses would be a
third of its time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, cast

from outlive.cli.output import Answer, show_answer
from outlive.core.durations import parse_duration
from outlive.core.layout import STATE_DIR_HELP, VARIABLE

_P = ParamSpec("_P")
Kind = Literal["switch", "one", "many"]
TIME = "TIME"  # what stands for a time in help: 90 or 90s, 5m, 2h, 1d
NEED_EXAMPLES = "cpu=4, mem=40G, gpu=1, zone=eu"  # of what a command needs of a machine


class UsageError(Exception):
    """The words of the command line are wrong: the program says why, and ends with 2.

    `unknown` are the flags that there are not.
    """

    def __init__(self, text: str, *, unknown: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.unknown = tuple(unknown)


class Parameter(NamedTuple):
    """One flag or one place of a verb.

    Attributes:
        name: The argument of the verb's function.
        kind: A switch without a value, one value, or any number of them.
        metavar: What stands for the value in the help; "a|b|c" are choices that the shell completes.
        about: One sentence, or what returns it where that costs an import.
        flags: The long name first; empty for a place.
        off: The flag that switches it off.
        read: Text to value; raises ValueError with a sentence.
        default: The value where the parameter is not given.
        is_required: Whether a place has to be filled.
        note: What stands in brackets behind the sentence: bounds, a default.
        is_hidden: Whether help and completion leave it out.
        ends_flags: Whether everything behind its first word belongs to it, dashes and all.
        is_process: Whether its words name processes, which the shell completes.
        is_common: Whether most verbs take it: the program's own help page explains it, a verb's only names
            it.
        other_flags: What other programs call the flag: taken, and shown nowhere.
    """

    name: str
    kind: Kind
    metavar: str
    about: str | Callable[[], str]
    flags: tuple[str, ...] = ()
    off: str = ""
    read: Callable[[str], object] = str
    default: object = None
    is_required: bool = False
    note: str = ""
    is_hidden: bool = False
    ends_flags: bool = False
    is_process: bool = False
    is_common: bool = False
    other_flags: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The help with its note."""
        about = self.about if isinstance(self.about, str) else self.about()
        return f"{about}  [{self.note}]" if self.note else about

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be; empty where anything goes."""
        return choices_of(self.metavar)


def choices_of(metavar: str) -> tuple[str, ...]:
    """Return the words that a value may be, from what stands for it in the help; empty where anything goes.

    What stands for a word of the user's own is written in capitals, or with signs: NAME=VALUE, TEXT|:PORT.
    """
    words = tuple(metavar.split("|"))
    is_choice = len(words) > 1 and all(word.replace("_", "").replace("-", "").islower() for word in words)
    return words if is_choice else ()


class ServerFlags(NamedTuple):
    """What every verb that asks a server takes: which server, whether it may be started, and the form of the
    answer.
    """

    state_dir: str | None
    no_start: bool
    as_json: bool


class Action(Generic[_P]):
    """A verb's function with what it takes; the program calls it by the parameters' names.

    The flags of `SERVER` come as one argument, `server`.
    """

    def __init__(
        self, function: Callable[_P, int | Answer], parameters: Sequence[Parameter], *, more: str
    ) -> None:
        """Take them; `more` are paragraphs for the help page behind the verb's sentence."""
        self._function = function
        self.parameters = tuple(parameters)
        self.more = more

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> int | Answer:
        """Do it, and return the exit code, or what has to be printed."""
        return self._function(*args, **kwargs)

    def call(self, given: Mapping[str, object]) -> int:
        """Do it with what the parser has found, by name; print what it answers, and return the exit code."""
        arguments: dict[str, Any] = dict(given)
        if set(ServerFlags._fields) <= set(given):
            arguments["server"] = ServerFlags(*map(arguments.pop, ServerFlags._fields))
        if "as_json" not in self._function.__annotations__:
            arguments.pop("as_json", None)
        found = cast("Callable[..., int | Answer]", self._function)(**arguments)
        return show_answer(found, as_json=bool(given["as_json"])) if isinstance(found, Answer) else found


def takes(*parameters: Parameter, more: str = "") -> Callable[[Callable[_P, int | Answer]], Action[_P]]:
    """Declare what a verb takes.

    The function has an argument of each parameter's name and returns the exit code, or what it answers; the
    latter needs no `as_json`.
    """
    return lambda function: Action(function, parameters, more=more)


def switch(*flags: str, about: str, to: str = "", off: str = "", default: bool | None = False) -> Parameter:
    """Return a flag without a value; `off` is its opposite."""
    return Parameter(to or _name(flags[0]), "switch", "", about, flags, off, default=default)


def option(
    *flags: str,
    metavar: str,
    about: str | Callable[[], str],
    to: str = "",
    default: str | None = None,
    note: str = "",
) -> Parameter:
    """Return a flag with one text; a default of its own is shown."""
    note = note or (f"default: {default}" if default else "")
    read = _reader(metavar)
    return Parameter(
        to or _name(flags[0]), "one", metavar, about, flags, read=read, default=default, note=note
    )


def options(*flags: str, metavar: str, about: str, to: str) -> Parameter:
    """Return a flag that may stand there many times; the function gets a list."""
    return Parameter(to, "many", metavar, about, flags, read=_reader(metavar))


def _reader(metavar: str) -> Callable[[str], str]:
    """Return what reads the value of a flag that stands so in the help."""
    if metavar == "NAME=VALUE":
        return pair
    choices = choices_of(metavar)
    return one_of(choices) if choices else str


def pair(text: str) -> str:
    """Return a text that is NAME=VALUE.

    Raises:
        ValueError: It is not.
    """
    name, equals, _ = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text[:60]!r} is not NAME=VALUE")
    return text


def count(
    *flags: str,
    metavar: str,
    about: str,
    to: str = "",
    least: int,
    most: int | None = None,
    default: int | None = None,
) -> Parameter:
    """Return a flag with a whole number within bounds."""
    bounds = f"x>={least}" if most is None else f"{least}<=x<={most}"
    note = bounds if default is None else f"default: {default}; {bounds}"

    def read(text: str) -> int:
        return whole_number(text, least=least, most=most)

    return Parameter(
        to or _name(flags[0]), "one", metavar, about, flags, read=read, default=default, note=note
    )


def whole_number(text: str, *, least: int, most: int | None) -> int:
    """Return the whole number that a text says.

    Raises:
        ValueError: It says none, or one that is out of bounds.
    """
    try:
        found = int(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is no whole number") from None
    if found < least or (most is not None and found > most):
        bounds = f"x>={least}" if most is None else f"{least}<=x<={most}"
        raise ValueError(f"{found} is not in the range {bounds}")
    return found


def seconds(
    flag: str, *, about: str, to: str = "", least: float | None = None, default: float | None = None
) -> Parameter:
    """Return a flag with a time: a number of seconds, or one with a unit."""
    bounds = "" if least is None else f"x>={least}"
    note = "; ".join(word for word in ("" if default is None else f"default: {default}", bounds) if word)

    def read(text: str) -> float:
        found = parse_duration(text)
        if least is not None and not found >= least:
            raise ValueError(f"{found} is not in the range {bounds}")
        return found

    return Parameter(to or _name(flag), "one", TIME, about, (flag,), read=read, default=default, note=note)


def place(name: str, metavar: str, *, about: str, is_required: bool = True) -> Parameter:
    """Return one word without a flag; where the metavar lists choices, it has to be one of them."""
    one = Parameter(
        name, "one", metavar, about, is_required=is_required, note="required" if is_required else ""
    )
    return one._replace(read=_reader(metavar))


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """Return what reads a text that has to be one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}")
        return text

    return read


def places(
    name: str, metavar: str, *, about: str, is_required: bool = True, ends_flags: bool = False
) -> Parameter:
    """Return any number of words without a flag, at least one where they are required.

    The function gets a list.
    """
    note = "required" if is_required else ""
    return Parameter(name, "many", metavar, about, is_required=is_required, note=note, ends_flags=ends_flags)


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def about_option(sentence: str, env: Sequence[str], default: str = "") -> str:
    """Return the sentence of a server's option with its default and its environment variables."""
    words = [sentence, *([f"Default {default}."] if default else []), f"Environment: {', '.join(env)}."]
    return " ".join(words)


STATE_DIR = option("--state-dir", metavar="FOLDER", about=about_option(STATE_DIR_HELP, [VARIABLE]))._replace(
    is_common=True
)
JSON = switch("--json", about="Answer with one line of JSON.", to="as_json")._replace(is_common=True)
DRY_RUN = switch("--dry-run", about="Show what would change, and change nothing.")
NO_START = switch("--no-start", about="Fail where no server runs, instead of starting one.")._replace(
    is_common=True
)
GROUP = option("--group", "-g", metavar="NAME", about="Those of a group.")
TAGS = options("--tag", metavar="NAME=VALUE", about="Those with a tag.", to="tags")
NAME = place("name", "ID", about="A name, a short id (p7), an id, the end of one, a pid, or @last.")._replace(
    is_process=True
)
NAMES = places("names", "ID...", about="Names, short ids (p7), ids, ends of ids, pids, or @last.")._replace(
    is_process=True
)
OPTIONAL_NAMES = NAMES._replace(metavar="[ID]...", is_required=False, note="")
DETACH_KEYS = option(
    "--detach-keys",
    metavar="KEYS",
    about="Typed at a terminal, they leave it running: ctrl-<letter> or characters, separated by commas; "
    '"" for none.',
    default="ctrl-p,ctrl-q",
)
SERVER = (STATE_DIR, NO_START, JSON)  # of every verb that asks the server and answers
