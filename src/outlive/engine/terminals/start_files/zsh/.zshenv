# zsh reads this in our ZDOTDIR, then .zshrc beside it; each reads the user's own first (zsh(1), "STARTUP/SHUTDOWN FILES").
__outlive_folder=$ZDOTDIR
if [[ -v OUTLIVE_ZDOTDIR ]]; then
    export ZDOTDIR=$OUTLIVE_ZDOTDIR
else
    unset ZDOTDIR
fi
if [[ -z ${OUTLIVE_TERMINAL_BARE-} && -r ${ZDOTDIR:-$HOME}/.zshenv ]]; then
    . "${ZDOTDIR:-$HOME}/.zshenv"
fi
if [[ -v ZDOTDIR ]]; then # which may have set it
    OUTLIVE_ZDOTDIR=$ZDOTDIR
fi
ZDOTDIR=$__outlive_folder
