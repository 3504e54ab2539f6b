# Lets a copy be kept of what enters the filter at a line's end (`make | tail -30`): bash reads this file before the line
# (BASH_ENV, bash(1)). The line itself is passed to bash as ever.
#
# bash is made to find the runner where it would find `tail`, `head` or `grep` (a table that no program and no other shell
# inherits, and that a change of PATH empties). The runner becomes that filter in the same process (native/filter). At the
# end an EXIT trap writes the exit codes of the last pipeline, where a copy was kept; a trap of the line's own replaces it.

# OUTLIVE_FILTER: the filter's name; the bytes that are kept, the stages of its pipeline, and whether these tell it from the
# line's others; the runner's path, or nothing: then only the exit codes are kept.
__outlive_name=${OUTLIVE_FILTER%% *}
__outlive_rest=${OUTLIVE_FILTER#* }
__outlive_runner=${__outlive_rest#* }
__outlive_folder=$OUTLIVE_STATE_DIR/processes/$OUTLIVE_PROCESS_ID
unset -v BASH_ENV OUTLIVE_FILTER # shells below this one know nothing of it
if {
    builtin hash -- "$__outlive_name" && # not there: the line fails with bash's own words
        builtin printf '%s\n' "${__outlive_rest%% *}" >"$__outlive_folder/filter"
} 2>/dev/null; then
    [[ ! -x $__outlive_runner ]] || builtin hash -p "$__outlive_runner" -- "$__outlive_name"
    # Braces, so that neither `set -x` nor a DEBUG trap shows on the command's streams what happens in them.
    trap -- "{ { builtin printf '%s ' \"\${PIPESTATUS[@]}\" end >|${__outlive_folder@Q}/codes; } || :; } 2>/dev/null" EXIT
fi
unset -v __outlive_name __outlive_rest __outlive_runner __outlive_folder
if [[ -v OUTLIVE_BASH_ENV ]]; then # the user's own
    export BASH_ENV=$OUTLIVE_BASH_ENV
    unset -v OUTLIVE_BASH_ENV
    . "$BASH_ENV"
fi
