# What bash reads first in a terminal of outlive (bash --init-file): the user's own file, then the marks of decision 100.
# It can be read again, where its marks are gone.
#
# D ends a command and tells its exit code, A begins and B ends a prompt, C begins a command, P asks for another line.
# D stands twice: before PROMPT_COMMAND, so that what that prints is nobody's output, and in PS1 for whoever replaces
# PROMPT_COMMAND. Nothing here is exported: a shell below this one marks nothing.

__outlive_key=$OUTLIVE_TERMINAL_KEY
__outlive_is_bare=${OUTLIVE_TERMINAL_BARE-}
unset -v OUTLIVE_TERMINAL_KEY OUTLIVE_TERMINAL_BARE
if [[ -z $__outlive_is_bare && -r ~/.bashrc ]]; then
    . ~/.bashrc
fi
unset -v __outlive_is_bare

set +H # an exclamation mark is an exclamation mark
bind 'set enable-bracketed-paste on' 2>/dev/null
bind 'set input-meta on' 2>/dev/null
bind 'set output-meta on' 2>/dev/null
bind 'set convert-meta off' 2>/dev/null
for __outlive_map in emacs vi-insert vi-command; do # what we send before a command: what is typed already goes
    bind -m "$__outlive_map" '"\e[133;1~": kill-whole-line' 2>/dev/null
done
unset -v __outlive_map

__outlive_first='\[\e]133;D;$?;k=p;aid='$__outlive_key'\a\]'
__outlive_last='\[\e]133;B;aid='$__outlive_key'\a\]'
__outlive_more='\[\e]133;P;k=s;aid='$__outlive_key'\a\]'
__outlive_begun='\e]133;C;aid='$__outlive_key'\a'

__outlive_ended() {
    local code=$?
    builtin printf '\e]133;D;%s;aid=%s\a' "$code" "$__outlive_key"
    return "$code"
}

# Last before each prompt: what a theme has made of the prompts is put right.
__outlive_prompts() {
    [[ $PS1 == *"$__outlive_last" && $PS1 == "$__outlive_first"* ]] || {
        PS1=${PS1//"$__outlive_first"/}
        PS1=$__outlive_first${PS1//"$__outlive_last"/}$__outlive_last
    }
    [[ $PS2 == "$__outlive_more"* ]] || PS2=$__outlive_more$PS2
    [[ ${PS0-} == *"$__outlive_begun" ]] || PS0=${PS0-}$__outlive_begun
    declare -g +x PS0 PS1 PS2
    shopt -s promptvars
    builtin printf '\e]133;A;aid=%s\a' "$__outlive_key"
}

# Under `set -e` the code that is handed on must end no shell: in an AND list it ends none (bash(1), set).
if ((BASH_VERSINFO[0] > 5 || (BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1))); then
    PROMPT_COMMAND=('__outlive_ended && :' "${PROMPT_COMMAND[@]/#__outlive_*/}" __outlive_prompts)
else
    PROMPT_COMMAND='__outlive_ended && :'$'\n'${PROMPT_COMMAND-}$'\n'__outlive_prompts
fi
