# Keeps what a workspace's shell is at its end: bash reads this file before the command (BASH_ENV, bash(1)).
#
# The command itself is passed to bash as ever, so that syntax errors, heredocs, line numbers and exit codes are its
# own. What it can see of this file is one EXIT trap, which a trap of its own replaces. `exec`, SIGKILL and a
# signal that ends the shell leave no file or one that is not heeded (frontends/mcp/tools/workspaces.py).

if (($#)); then # in the EXIT trap: $1 is the file, $2 and $3 what the workspace has brought and removed so far
    [[ $BASHPID == "$$" ]] || return
    set +euxvn +o noclobber
    builtin mapfile -t __outlive_names < <(builtin compgen -e)
    builtin wait "$!" # bash does not by itself, and what outlives the command would be told as left over
    {
        builtin pwd
        builtin printf '\0'
        # What the shell began with (proc(5), environ): a variable that is as it was then is the caller's, and is not written down.
        builtin declare -A __outlive_first
        # No loop around a command: where a function takes the place of `builtin`, it would have no end.
        builtin mapfile -d '' -t __outlive_words <"/proc/$$/environ"
        for __outlive_name in "${__outlive_words[@]}"; do
            # Exported functions and names that no shell can set (environ(7)) go to every command as the caller has them.
            [[ $__outlive_name =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || continue
            __outlive_first[${__outlive_name%%=*}]=${__outlive_name#*=}
        done
        # The caller's own start-up file came under another name: it is the caller's, too.
        if [[ -v __outlive_first[OUTLIVE_BASH_ENV] ]]; then
            __outlive_first[BASH_ENV]=${__outlive_first[OUTLIVE_BASH_ENV]}
            builtin unset -v "__outlive_first[OUTLIVE_BASH_ENV]"
        fi
        for __outlive_name in "${__outlive_names[@]}"; do
            # Exported and unset, or an array: the environment cannot carry it (bash(1), "Arrays").
            [[ -v $__outlive_name && ${!__outlive_name@a} != *[aA]* ]] || continue
            if [[ -v __outlive_first[$__outlive_name] ]]; then
                __outlive_value=${__outlive_first[$__outlive_name]}
                builtin unset -v "__outlive_first[$__outlive_name]"
                # What the workspace itself has brought is written again, changed or not.
                [[ $__outlive_value != "${!__outlive_name}" || " $2 " == *" $__outlive_name "* ]] || continue
            fi
            builtin printf '%s=%s\0' "$__outlive_name" "${!__outlive_name}"
        done
        # The rest is gone: a name alone says that the next command begins without it.
        for __outlive_name in "${!__outlive_first[@]}" $3; do
            [[ -v $__outlive_name ]] || builtin printf '%s\0' "$__outlive_name"
        done
        builtin printf end # a torn file has no end
    } >"$1"
    return
fi

# A brace group, so that neither `set -x` nor a DEBUG trap shows on the command's streams what happens in it.
trap -- "{ . ${BASH_SOURCE[0]@Q} ${OUTLIVE_STATE_DIR@Q}/processes/${OUTLIVE_PROCESS_ID@Q}/workspace ${OUTLIVE_CARRIED@Q} ${OUTLIVE_REMOVED@Q} || :; } >/dev/null 2>&1" EXIT
unset -v BASH_ENV OUTLIVE_CARRIED OUTLIVE_REMOVED # shells below this one belong to no workspace
if [[ -v OUTLIVE_BASH_ENV ]]; then # the user's own
    export BASH_ENV=$OUTLIVE_BASH_ENV
    unset -v OUTLIVE_BASH_ENV
    . "$BASH_ENV"
fi
