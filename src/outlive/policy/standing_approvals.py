"""Which commands a person may approve for always, and for what exactly that counts: `standing_approval`.

Pure.

A standing approval is about one command, word for word, in one project. Nothing of it is a pattern: whatever
else would change what runs (what its files hold, a redirection, a variable, its input, the profile, the
place) makes another command, about which a person is asked again. A command that can start others gets none,
as a rule for it would allow everything (`starters`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from outlive.core.command import Command, StandingApproval
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile
from outlive.policy.starters import SHELL_BUILTINS, reason_for

_SHOWN = 80  # characters of a program's name in a sentence
# They name a terminal or a login, are other ones each time, and decide nothing. Every other variable counts.
_SESSION_NAMES = frozenset(
    "COLUMNS INVOCATION_ID JOURNAL_STREAM LINES OLDPWD PWD SHLVL SSH_CLIENT SSH_CONNECTION SSH_TTY STY "  # noqa: SIM905 -- a table of words
    "SYSTEMD_EXEC_PID TERM_SESSION_ID TMUX_PANE WINDOW WINDOWID XDG_SESSION_ID XDG_VTNR _".split()
)


def standing_approval(
    command: Command,
    reading: Reading,
    files: Mapping[str, ProgramFile | None],
    *,
    project: str,
    surroundings: Mapping[str, object],
    uncertain: str = "",
) -> StandingApproval | str:
    """Return what an approval for always would be about, or in one sentence why there is none.

    Args:
        command: What is asked about.
        reading: What it would start;
        files: and the file to which each first word leads, by the word.
        project: The real path of the project in which it would run.
        surroundings: Whatever else decides what runs, for `json`: which folder the project is, the states of
            the files, the profile, the umask.
        uncertain: Why that is not everything, in one sentence; empty where it is.
    """
    hidden = reading.opaque or reading.hides
    if hidden is not None:
        return f"It is not certain what this would start: {hidden}."
    if command.env_secrets:
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
    if uncertain:
        return uncertain
    decisive = {
        "line": command.line,
        "argv": command.argv,
        "script": command.script,
        "programs": programs,
        "env": _deciding(command.env),
        "caller_env": None if command.caller_env is None else _deciding(command.caller_env),
        "inherits_env": command.inherits_env,
        "stdin": command.stdin,
        "stdio": command.stdio,
        "limits": command.limits.view(),
        **surroundings,
    }
    try:
        digest = hashlib.sha256(json.dumps(decisive, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
    except UnicodeEncodeError:
        return "Some of its words are no text."
    return StandingApproval(
        project=project, commands=tuple(one.argv for one in reading.commands), digest=digest
    )


def _deciding(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in variables.items() if name not in _SESSION_NAMES}


def also_runs(command: Command, reading: Reading, interpreters: Mapping[str, Sequence[str]]) -> str:
    """Return in a sentence what no yes is about, though it decides what runs; empty where nothing is known.

    `interpreters` are the programs that run a script, by its name: what they read, they run.
    """
    said = ""
    programs = {one.name: [one.name] for one in reading.commands if one.name not in SHELL_BUILTINS}
    for name, starters in (programs | dict(interpreters)).items():
        if (starter := next((one for one in starters if reason_for(one) is not None), None)) is not None:
            shown = repr(name[:_SHOWN])
            shown += "" if name == starter else f", a script for {starter[:_SHOWN]!r},"
            how = reason_for(starter)
            said = f" {shown} starts others ({how}): what the files that it reads say by then runs as well."
            break
    if command.stdin != "none" or command.stdio == "pty":
        said += " What is sent to its input is not known yet."
    return said
