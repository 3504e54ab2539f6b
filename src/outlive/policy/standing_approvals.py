"""Which commands a person may approve for always, and for what exactly that counts: `standing_approval`. Also as JSON. Pure.

A standing approval is about one command, word for word, in one project. Nothing of it is a pattern: whatever else would change what
runs (the program's file, a redirection, a variable, the profile, the place) makes another command, about which a person is asked again.
A command that can start others gets none, as a rule for it would allow everything (`starters`).
"""

import hashlib
import json
from collections.abc import Mapping

from outlive.core.command import Command, StandingApproval
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile
from outlive.policy.starters import SHELL_BUILTINS, reason_for

_SHOWN = 80  # characters of a program's name in a sentence


def standing_approval(
    command: Command,
    reading: Reading,
    files: Mapping[str, ProgramFile | None],
    *,
    project: str,
    profile: str,
    location: Mapping[str, object],
    gets_secrets: bool = False,
) -> StandingApproval | str:
    """Return what an approval for always would be about, or in one sentence why there is none.

    Args:
        command: What is asked about.
        reading: What it would start;
        files: and the file to which each first word leads, by the word.
        project: The real path of the project in which it would run.
        profile: The sandbox in which it would run;
        location: and where: the members of the process's view.
        gets_secrets: Whether variables that stand on no disk are handed to it.
    """
    hidden = reading.opaque or reading.hides
    if hidden is not None:
        return f"It is not certain what this would start: {hidden}."
    if gets_secrets:
        return "It gets secrets, which no file of settings may hold."
    if not reading.commands:
        return "It starts nothing that could be named."
    programs = []
    for one in reading.commands:
        name = one.argv[0]
        if one.open_words or one.ends_open:
            return f"A shell fills in some words of {name[:_SHOWN]!r}: they may be others each time."
        if (how := reason_for(one.name)) is not None:
            return (
                f"{one.name[:_SHOWN]!r} starts other programs ({how}): with it everything would be allowed."
            )
        file = files.get(name)
        if file is None and not (one.is_line and name in SHELL_BUILTINS):
            return f"No file of the program {name[:_SHOWN]!r} is found."
        programs.append("" if file is None else file.real)
    decisive = {
        "line": command.line,
        "argv": command.argv,
        "script": command.script,
        "programs": programs,
        "profile": profile,
        "location": dict(location),
        "env": dict(sorted(command.env.items())),
        "inherits_env": command.inherits_env,
    }
    try:
        digest = hashlib.sha256(json.dumps(decisive, ensure_ascii=False).encode()).hexdigest()
    except UnicodeEncodeError:
        return "Some of its words are no text."
    return StandingApproval(
        project=project, commands=tuple(one.argv for one in reading.commands), digest=digest
    )


def encode_standing(standing: StandingApproval) -> dict[str, object]:
    """Return a standing approval as JSON has it."""
    return {
        "project": standing.project,
        "commands": [list(words) for words in standing.commands],
        "digest": standing.digest,
        **({"by": standing.by, "at": standing.at} if standing.by else {}),
    }


def decode_standing(members: object) -> StandingApproval | None:
    """Return a standing approval from JSON; None for anything else."""
    match members:
        case {"project": str(project), "commands": [*commands], "digest": str(digest), **rest} if all(
            isinstance(words, list) and all(isinstance(word, str) for word in words) for words in commands
        ):
            by, at = (str(rest.get(name, "")) for name in ("by", "at"))
            return StandingApproval(
                project=project, commands=tuple(map(tuple, commands)), digest=digest, by=by, at=at
            )
    return None
