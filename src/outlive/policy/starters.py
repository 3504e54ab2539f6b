"""Programs that start other programs, with the reason (`STARTERS`), and variables that decide what a name
means. Pure.

A rule that allows such a program allows everything. Some of them name the program they start among their
words; these are listed as well. The tables can never be complete: a program that is not in them may start
others all the same.

`deciding_variables` are those that decide what a name means, or make a shell run something first: a caller
that may choose them chooses programs. Sources: bash(1), "Shell Variables", "INVOCATION" and "ENVIRONMENT";
dash(1); ld.so(8); locale(7) (a locale decides which characters are blanks between words).
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from outlive.core.command import Command

# Those that read a line behind -c, and all that a list which holds one allows everything by.
SHELLS = frozenset("ash bash dash ksh mksh rbash sh yash zsh".split())  # noqa: SIM905 -- a table of words
ALL_SHELLS = SHELLS | frozenset("busybox csh elvish fish nu oksh pwsh rc tcsh xonsh".split())  # noqa: SIM905 -- a table of words

# Each is one file that is another program under each of its names.
_MULTI_CALL = frozenset({"busybox", "coreutils", "kmod", "systemctl", "toybox", "uutils"})

# bash 5.2 (`enable -a`) and dash 0.5.12: a shell runs these itself, whatever PATH says.
SHELL_BUILTINS = frozenset(
    ". : [ alias bg bind break builtin caller cd chdir command compgen complete compopt continue "  # noqa: SIM905
    "declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs "
    "kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt "
    "source suspend test times trap true type typeset ulimit umask unalias unset wait".split()
)

# Programs that run the words behind their own: what those words name is judged as well.
WORD_STARTERS = frozenset(
    "builtin busybox catchsegv chronic chroot chrt command coproc dbus-run-session doas env exec "  # noqa: SIM905
    "faketime fakeroot find firejail flock gdb gtime i386 ionice jobs linux32 linux64 logsave ltrace "
    "memusage nice nocache nohup nsenter numactl parallel perf prlimit proot proxychains runcon runuser "
    "setarch setpriv setsid setuidgid softlimit ssh-agent start-stop-daemon stdbuf strace sudo "
    "systemd-inhibit systemd-run taskset time timeout toybox torsocks trickle unbuffer unshare uvx "
    "valgrind watch x86_64 xargs xvfb-run bwrap entr".split()
)
# Programs that read one of their words as a line of a shell: behind -c, or all words joined.
LINE_STARTERS = SHELLS | frozenset("csh eval fish flock parallel runuser script su tcsh watch".split())  # noqa: SIM905 -- a table of words


def _table(rows: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({name: reason for names, reason in rows.items() for name in names.split()})


STARTERS: Mapping[str, str] = _table(
    {
        " ".join(sorted(ALL_SHELLS)): "a shell runs any line or script",
        ". source": "runs any file in the shell itself",
        "eval": "runs its words as a line",
        "exec command builtin coproc": "runs the words behind it",
        "trap": "runs a line at a signal or at the end",
        "alias enable hash": "decides what a name means from then on",
        "export declare typeset local readonly read mapfile readarray getopts": (
            "can set PATH, LD_PRELOAD or BASH_ENV, and runs $(…) within a subscript"
        ),
        "printf test [ unset let wait": (
            "bash runs $(…) within a subscript among its words (printf -v, test -v, unset)"
        ),
        "set shopt": "changes how the shell reads what follows",
        "jobs": "jobs -x runs the words behind it",
        "cd pushd popd": "decides what a relative path means from then on",
        "bind complete compgen fc": "runs lines (bind -x, complete -C, fc -s)",
        "python pypy perl ruby node nodejs deno bun php lua luajit tclsh wish expect guile racket R "
        "Rscript julia ghci runghc scala groovy jshell java erl escript elixir iex octave gnuplot "
        "osascript bpython ipython jupyter irb": "an interpreter runs any program text",
        "awk gawk mawk nawk": "system(), pipes and | getline",
        "sed gsed": "the commands e and s///e (GNU), w to any file",
        "ed ex red": "the command !",
        "vi vim nvim view vimdiff rvim nano pico emacs emacsclient micro helix hx kak joe jed mc": (
            "an editor runs commands (:!, M-!, macros)"
        ),
        "less more most pg man info apropos": "a pager runs !command, |, v, LESSOPEN",
        "bc dc": "dc runs !command; both read files",
        "gdb lldb cgdb": "shell, run, python",
        "env nice nohup setsid stdbuf timeout time gtime ionice chrt taskset numactl prlimit setarch "
        "i386 linux32 "
        "linux64 x86_64 chronic unbuffer xvfb-run dbus-run-session systemd-inhibit faketime fakeroot nocache "
        "catchsegv memusage logsave torsocks proxychains trickle valgrind strace ltrace perf": "runs the words behind its own",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "xargs parallel": "runs a command for what it reads",
        "find fd fdfind": "-exec, -execdir, -ok, -okdir; -delete, -fprintf",
        "watch entr inotifywait incrond": "runs a command again and again",
        "script scriptreplay screen tmux dtach abduco byobu zellij": "starts a shell in a terminal",
        "flock": "runs a command or a line under a lock",
        "sudo sudoedit doas su runuser pkexec setpriv setuidgid softlimit gosu su-exec run0 newgrp sg login": "runs commands as somebody else",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "chroot unshare nsenter bwrap firejail proot runcon systemd-nspawn": "runs commands somewhere else",
        (
            "docker podman nerdctl buildah lxc lxc-attach incus kubectl oc helm crictl ctr runc crun "
            "machinectl"
        ): ("runs anything in containers, which may hold the whole disk"),
        "vagrant qemu qemu-system-x86 virsh": "runs anything in machines",
        "ssh slogin autossh mosh": "ProxyCommand, LocalCommand, and anything elsewhere",
        "scp sftp rsync": "-S or -e names a program",
        "ssh-agent ssh-add ssh-keygen": "-D, SSH_ASKPASS, or a command behind it",
        "git": (
            "-c alias.x=!cmd, core.pager, core.sshCommand, --exec-path, hooks, bisect run, submodule foreach"
        ),
        "hg svn bzr cvs darcs fossil repo": "aliases, hooks and diff programs from configuration",
        "gh glab": "aliases and extensions, and git below them",
        "tar gtar bsdtar cpio": "--checkpoint-action, --to-command, -I, --rsh-command",
        "zip unzip 7z rar ar": "-TT, -U, or a self-made filter",
        "make gmake bmake nmake cmake ctest ninja meson scons bazel buck just task rake invoke doit tox "
        "nox ant mvn gradle sbt lein msbuild": "runs the commands of a build file",
        "gcc cc g++ c++ clang ld as cpp gfortran rustc go cargo zig ghc ocaml dmd nim swift javac tsc": (
            "-wrapper, -B, plugins, build scripts, `run`"
        ),
        "npm npx pnpm yarn corepack pip pipx uv uvx poetry pdm hatch conda mamba gem bundle composer "
        "cabal stack opam luarocks cpan mix rebar3": "runs the scripts of packages",
        (
            "apt apt-get aptitude dpkg rpm yum dnf zypper pacman apk emerge snap flatpak nix nix-shell "
            "nix-env guix brew port"
        ): ("runs the scripts of packages and hooks of configuration"),
        "at batch cron crontab anacron systemctl systemd-run systemd-cat start-stop-daemon service "
        "initctl rc-service openrc runsvdir sv supervisorctl pm2 busctl dbus-send gdbus": (
            "has another daemon start commands, outside of every tree"
        ),
        "psql mysql mariadb sqlite3 sqlplus mongo mongosh redis-cli": "\\!, .shell, system",
        "ftp lftp telnet nc ncat netcat socat curl wget openssl": (
            "!command, exec:, -e, --use-askpass, engines"
        ),
        "tcpdump tshark dumpcap nmap": "-z, --script, lua",
        "mail mailx mutt sendmail exim": "~!command, -oX, transport filters",
        "iptables-save ip tc": "ip netns exec, plugins",
        "split csplit sort pv": "split --filter, sort --compress-program",
        "ncdu ranger lf nnn vifm": "opens a shell",
        "xdg-open open gio gtk-launch xterm gnome-terminal konsole": (
            "starts whatever a file or desktop entry says"
        ),
        "ld.so ld-linux ld-linux-x86-64.so ld-linux-aarch64.so ld-musl-x86_64.so": "the loader runs any program",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "run-parts runit": "runs every file of a folder",
        "toybox uutils coreutils": "is many programs, starters among them",
        "ansible ansible-playbook salt puppet chef-client fab terraform tofu packer pulumi": "runs what its files say",  # noqa: E501 -- cut nowhere better: a table, or another program's text
        "claude codex gemini aider cursor-agent opencode goose": "an agent runs commands of its own",
        "outlive": "starts commands",
        "ffmpeg convert magick mogrify gs": "delegates and pipes of formats",
        "latex pdflatex xelatex lualatex tex": "\\write18",
    }
)
_VERSION = re.compile(r"[-.]?[0-9][-.0-9]*(?:t|m|-config)?$")


def is_multi_call(path: str) -> bool:
    """Return whether a file is another program under each of its names."""
    return path.rpartition("/")[2] in _MULTI_CALL


def reason_for(name: str) -> str | None:
    """Return how a program (its name, with or without a version behind it) starts others; None if it is not
    known to.
    """
    for known in (name, _VERSION.sub("", name), name.partition(".")[0]):
        reason = STARTERS.get(known)
        if reason is not None:
            return reason
    return None


_NAMES = frozenset(
    {
        "BASHOPTS",
        "BASH_ENV",
        "BASH_LOADABLES_PATH",
        "ENV",
        "EXECIGNORE",
        "GCONV_PATH",
        "IFS",
        "LOCPATH",
        "MUSL_LOCPATH",
        "PATH",
        "POSIXLY_CORRECT",
        "PS4",
        "SHELLOPTS",
    }
)
_PREFIXES = ("BASH_FUNC_", "LD_")


def is_deciding(name: str) -> bool:
    """Return whether a variable decides what runs."""
    return name in _NAMES or name.startswith(_PREFIXES)


def with_own_deciding(callers: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return a caller's environment in which the server's own variables decide what runs.

    Where rules are in force, a PATH that the caller did not even name must not make every command one that
    they cannot judge.
    """
    kept = {name: value for name, value in callers.items() if not is_deciding(name)}
    return kept | {name: value for name, value in own.items() if is_deciding(name)}


def deciding_variables(command: Command, own: Mapping[str, str]) -> list[str]:
    """Return the deciding variables to which a command gives other values than the server itself has.

    A variable that is only left out decides nothing, except PATH: without it a shell has a default of its
    own.
    """
    given = {**(command.caller_env or {}), **command.env, **command.env_secrets}
    changed = [name for name, value in given.items() if is_deciding(name) and value != own.get(name)]
    if not command.inherits_env and "PATH" not in given and "PATH" in own:
        changed.append("PATH")
    return changed
