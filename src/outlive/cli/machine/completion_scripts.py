"""`outlive completion`: the shells' scripts for completing outlive's words.

Which words: `outlive.cli.completion`.
"""

import os
from collections.abc import Mapping

from outlive.cli.machine.file_change import FileChange, read_text
from outlive.cli.output import Answer, show_diff
from outlive.cli.parameters import JSON, place, switch, takes
from outlive.core.errors import ConfigInvalid

_READABLE = 0o644

# Each script passes the words up to the cursor as they are, and gets one candidate a line. Where there is
# none the shell completes files.
_BASH = """\
# Completion of outlive for bash: source this, or put it where bash-completion looks.
_outlive_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(_OUTLIVE_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    return 0
}
complete -o default -F _outlive_completion outlive
"""
_ZSH = """\
#compdef outlive
# Completion of outlive for zsh: a file named _outlive in a folder of $fpath, or source this after compinit.
_outlive() {
    local -a found
    found=("${(@f)$(_OUTLIVE_COMPLETE=zsh "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n ${found[1]} ]]; then _describe outlive found; else _files; fi
}
if [[ ${funcstack[1]} == _outlive ]]; then _outlive "$@"; else compdef _outlive outlive; fi
"""
_FISH = """\
# Completion of outlive for fish.
function __outlive_complete
    set -lx _OUTLIVE_COMPLETE fish
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command outlive $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command outlive --no-files --arguments '(__outlive_complete)'
"""
SHELLS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script_path(shell: str, environ: Mapping[str, str]) -> str:
    """Return the user's file that the shell reads by itself.

    Raises:
        ConfigInvalid: There is no home folder.
    """
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise ConfigInvalid(
            "config_invalid", "There is no home folder to install into (HOME is not set).", hint="Set HOME."
        )
    data = _base(environ, "XDG_DATA_HOME", f"{home}/.local/share")
    return {
        "bash": f"{data}/bash-completion/completions/outlive",
        "zsh": f"{home}/.zfunc/_outlive",
        "fish": f"{_base(environ, 'XDG_CONFIG_HOME', f'{home}/.config')}/fish/completions/outlive.fish",
    }[shell]


@takes(
    place("shell", "|".join(SHELLS), about="The shell to complete in."),
    switch("--install", about="Write it where the shell looks for it."),
    JSON,
)
def completion(*, shell: str, install: bool, as_json: bool) -> Answer:
    """Print a shell's script, or write it where that shell looks.

    Raises:
        ConfigInvalid: The file cannot be written.
    """
    script = SHELLS[shell]
    if not install:
        return Answer({"shell": shell, "script": script}, script.splitlines())
    path = script_path(shell, os.environ)
    change = FileChange(path=path, old=read_text(path), new=script)
    backup = change.apply(mode=_READABLE) if change.is_needed else None
    document = {"shell": shell, "path": path, "changed": change.is_needed, "backup": backup}
    if not change.is_needed:
        return Answer(document, [f"Nothing to do: {path} is right already."])
    if not as_json:
        show_diff(change.diff)
    lines = [f"Wrote {path}. A new {shell} knows it."]
    if shell == "zsh":
        lines.append("Unless ~/.zshrc has it already, add: fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    if shell == "bash":
        without = "source <(outlive completion bash)"
        lines.append(f"It needs the package bash-completion; without it add to ~/.bashrc: {without}")
    return Answer(document, lines)


def _base(environ: Mapping[str, str], name: str, default: str) -> str:
    found = environ.get(name, "")
    return found if found.startswith("/") else default
