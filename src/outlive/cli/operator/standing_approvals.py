"""`outlive policy always` and `forget`: what is approved for always, and taking it back.

They need no server: the file is the user's.
"""

import os

from outlive.cli.output import Answer, blocks, show, show_json
from outlive.cli.parameters import JSON, places, takes
from outlive.core.command import StandingApproval
from outlive.core.errors import ConfigInvalid, ProcessNotFound
from outlive.discovery.config_paths import standing_file
from outlive.engine.starts.standing_file import StandingFile
from outlive.kernel.project import working_folder

_SHOWN_LETTERS = 12  # of a digest, as approvals are named
_LEAST_LETTERS = 4  # fewer are typed by mistake


@takes(JSON)
def always() -> Answer:
    """Print what is approved for always, oldest first."""
    file = _file()
    found = file.read()
    return Answer(
        {"file": file.path, "standing_approvals": [one.encode() for one in found]},
        blocks(map(_described, found)),
        said=[] if found else ["Nothing is approved for always."],
    )


@takes(places("names", "DIGEST...", about="What `outlive policy always` shows behind forget."), JSON)
def forget(*, names: list[str], as_json: bool) -> int:
    """Ask about these again, each named by the beginning of its digest."""
    file = _file()
    for name in names:
        gone = file.forget(name.lower()) if len(name) >= _LEAST_LETTERS else []
        if not gone:
            raise ProcessNotFound(
                "approval_settled",
                f"Nothing called {name[:60]!r} is approved for always.",
                hint="`outlive policy always` lists what is.",
            )
        if as_json:
            show_json({"forgotten": [one.encode() for one in gone]})
        for one in () if as_json else gone:
            show(f"{one.digest[:_SHOWN_LETTERS]} is asked about again")
    return 0


def _file() -> StandingFile:
    path = standing_file(os.environ, working_folder=working_folder())
    if path is None:
        raise ConfigInvalid(
            "config_invalid", "There is no home folder, so no file of approvals.", hint="Set HOME."
        )
    return StandingFile(path)


def _described(one: StandingApproval) -> list[str]:
    facts = [
        *(("words", " ".join(map(repr, words))) for words in one.commands),
        ("project", one.project),
        ("by", f"{one.by}, {one.at}"),
        ("forget", f"outlive policy forget {one.digest[:_SHOWN_LETTERS]}"),
    ]
    return [f"{name:<9}{value}" for name, value in facts]
