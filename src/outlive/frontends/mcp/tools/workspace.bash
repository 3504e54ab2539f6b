# Keeps what a workspace's shell is at its end: bash reads this file before the command (BASH_ENV, bash(1)).
#
# The command itself is passed to bash as ever, so that syntax errors, heredocs, line numbers and exit codes are its
# own. What it can see of this file is one EXIT trap, which a trap of its own replaces. `exec`, SIGKILL and a
# signal that ends the shell leave no file or one that is not heeded (frontends/mcp/tools/workspaces.py).

if (($#)); then # in the EXIT trap: $1 is the file
    [[ $BASHPID == "$$" ]] || return
    set +euxvn +o noclobber
    builtin mapfile -t __outlive_names < <(builtin compgen -e)
    builtin wait "$!" # bash does not by itself, and what outlives the command would be told as left over
    {
        builtin pwd
        builtin printf '\0'
        for __outlive_name in "${__outlive_names[@]}"; do
            # Exported and unset, or an array: the environment cannot carry it (bash(1), "Arrays").
            [[ -v $__outlive_name && ${!__outlive_name@a} != *[aA]* ]] || continue
            builtin printf '%s=%s\0' "$__outlive_name" "${!__outlive_name}"
        done
        builtin printf end # a torn file has no end
    } >"$1"
    return
fi

# A brace group, so that neither `set -x` nor a DEBUG trap shows on the command's streams what happens in it.
trap -- "{ . ${BASH_SOURCE[0]@Q} ${OUTLIVE_STATE_DIR@Q}/processes/${OUTLIVE_PROCESS_ID@Q}/workspace || :; } >/dev/null 2>&1" EXIT
unset -v BASH_ENV # shells below this one belong to no workspace
if [[ -v OUTLIVE_BASH_ENV ]]; then # the user's own
    export BASH_ENV=$OUTLIVE_BASH_ENV
    unset -v OUTLIVE_BASH_ENV
    . "$BASH_ENV"
fi
