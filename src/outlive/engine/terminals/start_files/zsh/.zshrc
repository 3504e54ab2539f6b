# The user's own, then the marks of decision 100, as start.bash has them.
if [[ -v OUTLIVE_ZDOTDIR ]]; then
    export ZDOTDIR=$OUTLIVE_ZDOTDIR
elif [[ -v __outlive_folder ]]; then # not where it is read again, for marks that are gone
    unset ZDOTDIR
fi
unset OUTLIVE_ZDOTDIR __outlive_folder
typeset -g +x __outlive_key=$OUTLIVE_TERMINAL_KEY
__outlive_is_bare=${OUTLIVE_TERMINAL_BARE-}
unset OUTLIVE_TERMINAL_KEY OUTLIVE_TERMINAL_BARE
if [[ -z $__outlive_is_bare && -r ${ZDOTDIR:-$HOME}/.zshrc ]]; then
    . "${ZDOTDIR:-$HOME}/.zshrc"
fi
unset __outlive_is_bare

setopt no_bang_hist interactive_comments no_prompt_sp prompt_percent
zle -A .bracketed-paste bracketed-paste # as it is: no wrapper that quotes what looks like an address
for __outlive_map in emacs viins vicmd; do
    bindkey -M $__outlive_map '\e[133;1~' kill-buffer
    bindkey -M $__outlive_map '\e[200~' bracketed-paste
done
unset __outlive_map

typeset -g +x __outlive_first=$'%{\e]133;D;%?;k=p;aid='$__outlive_key$'\a%}'
typeset -g +x __outlive_last=$'%{\e]133;B;aid='$__outlive_key$'\a%}'
typeset -g +x __outlive_more=$'%{\e]133;P;k=s;aid='$__outlive_key$'\a%}'

# What such a function returns is the next one's $? nowhere, and under `set -e` it would end the shell.
__outlive_ended() {
    builtin print -n -- "\e]133;D;$?;aid=$__outlive_key\a"
}

__outlive_prompts() {
    # zsh marks a last line without its end in this way, but before it tells anybody that the command has ended.
    [[ $TERM == dumb ]] || builtin print -nP -- "%B%S%#%s%b${(l:$((COLUMNS - 1)):: :)}\r \r"
    if [[ $PROMPT != "$__outlive_first"*"$__outlive_last" ]]; then
        PROMPT=${PROMPT//"$__outlive_first"/}
        PROMPT=$__outlive_first${PROMPT//"$__outlive_last"/}$__outlive_last
    fi
    [[ $PROMPT2 == "$__outlive_more"* ]] || PROMPT2=$__outlive_more$PROMPT2
    typeset -g +x PROMPT PROMPT2
    builtin print -n -- "\e]133;A;aid=$__outlive_key\a"
}

__outlive_begun() {
    builtin print -n -- "\e]133;C;aid=$__outlive_key\a"
}

typeset -ga precmd_functions preexec_functions
precmd_functions=(__outlive_ended ${precmd_functions:#__outlive_*} __outlive_prompts)
preexec_functions=(${preexec_functions:#__outlive_*} __outlive_begun)
