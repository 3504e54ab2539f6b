"""What several verbs take, as typer knows it: `--state-dir`, `--json`, names, groups and tags; the sentence of an option."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from outlive.config import Option
from outlive.discovery.state_folder import STATE_DIR


def help_of(option: Option) -> str:
    """Return an option's sentence with its default and its environment variables."""
    words = [option.sentence]
    if option.default and not option.is_switch:
        words.append(f"Default {option.default}.")
    words.append(f"Environment: {', '.join(option.env)}.")
    return " ".join(words)


def choice(words: Sequence[str], *, help_text: str) -> Any:  # noqa: ANN401 -- what typer.Argument returns
    """Return an argument that is one of these words, and completes as them (`completion_words` reads the metavar)."""

    def check(value: str) -> str:
        if value not in words:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(words)}.")
        return value

    return typer.Argument(metavar="|".join(words), help=help_text, callback=check, show_default=False)


StateDir = Annotated[
    str | None, typer.Option(STATE_DIR.flag, metavar="FOLDER", help=help_of(STATE_DIR), show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.", show_default=False)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change, and change nothing.", show_default=False)
]
NoStart = Annotated[
    bool,
    typer.Option(
        "--no-start", help="Fail where no server runs, instead of starting one.", show_default=False
    ),
]
OptionalNames = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Ids, ends of ids, or pids.", show_default=False)
]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Those of a group.", show_default=False)
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="Those with a tag.", show_default=False),
]
