# What fish runs behind the user's own configuration (fish --init-command): the marks of decision 100.
#
# fish takes several lines as one command, and does not say that it wants more of them: the key that we send behind a
# command asks it.

set -g __outlive_key $OUTLIVE_TERMINAL_KEY
set -e OUTLIVE_TERMINAL_KEY
set -e OUTLIVE_TERMINAL_BARE

function __outlive_begun --on-event fish_preexec
    printf '\e]133;C;aid=%s\a' $__outlive_key
end

function __outlive_ended --on-event fish_postexec
    set -l code $status
    printf '\e]133;D;%s;aid=%s\a' $code $__outlive_key
end

functions -q fish_prompt; and functions -c fish_prompt __outlive_users_prompt

function __outlive_status
    return $argv[1]
end

function fish_prompt
    set -l code $status
    printf '\e]133;A;aid=%s\a' $__outlive_key
    if functions -q __outlive_users_prompt
        __outlive_status $code
        __outlive_users_prompt
    else
        printf '> '
    end
    printf '\e]133;B;aid=%s\a' $__outlive_key
end

function __outlive_submit
    commandline --is-valid
    switch $status
        case 0
            commandline -f execute
            return
        case 2
            printf '\e]133;P;k=s;aid=%s\a\n\e]133;D;127;aid=%s\a' $__outlive_key $__outlive_key
        case '*' # fish would keep the line, to be corrected
            printf '\n\e]133;C;aid=%s\a' $__outlive_key
            commandline | command fish --no-execute
            printf '\e]133;D;%s;aid=%s\a' $pipestatus[2] $__outlive_key
    end
    commandline ''
    commandline -f repaint
end

for __outlive_mode in default insert
    bind -M $__outlive_mode \e\[133\;1~ 'commandline ""'
    bind -M $__outlive_mode \e\[133\;2~ __outlive_submit
end
set -e __outlive_mode
bind -M paste \t 'commandline -i \t' # which a paste would lose
