"""Words of other programs that outlive understands (`translated`), and what it says to those that it does not
(`suggestion`). Pure.

People type what docker, pueue, tmux, pm2, systemctl, kubectl, screen and nohup have taught them. A word that
means the same here is an alias; one that means nothing here gets a sentence that names what does. No sentence
for a mistyped word names a verb that ends or removes something: a person may type what is proposed without
reading it.

Tables and functions of words only: every call of the program imports this.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# An alias -> the words that it stands for. What follows the alias follows them.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "a": ("attach",),
        "add": ("run", "--detach", "--known"),
        "attach-session": ("attach",),
        "bg": ("resume",),
        "capture-pane": ("logs",),
        "completions": ("completion",),
        "connect": ("attach",),
        "continue": ("resume",),
        "del": ("rm",),
        "delete": ("rm",),
        "describe": ("inspect",),
        "du": ("df",),
        "exec": ("run", "--inside"),
        "fg": ("attach",),
        "follow": ("logs", "--follow"),
        "get": ("ps",),
        "has-session": ("inspect",),
        "history": ("ps", "--all"),
        "info": ("inspect",),
        "jobs": ("ps",),
        "jlist": ("ps", "--json"),
        "kill-session": ("stop",),
        "list": ("ps",),
        "list-sessions": ("ps",),
        "list-units": ("ps",),
        "log": ("logs",),
        "ls": ("ps",),
        "monit": ("stats",),
        "new": ("run",),
        "new-session": ("run",),
        "nohup": ("run", "--detach"),
        "open": ("ui",),
        "remove": ("rm",),
        "sendSignal": ("signal",),
        "send-keys": ("send",),
        "copy": ("cp",),
        "scp": ("cp",),
        "show": ("inspect",),
        "start": ("run", "--detach", "--known"),
        "status": ("ps",),
        "tail": ("logs", "--follow"),
        "top": ("stats",),
        "try-restart": ("restart",),
        "usage": ("df",),
        "unpause": ("resume",),
    }
)
# Words of docker, kubectl and process-compose for what outlive has one kind of: left out before and behind a
# verb.
_KINDS = frozenset(
    {"container", "process", "pod", "pods", "po", "deployment", "deployments", "deploy", "job", "jobs"}
)
_OF_KINDS = frozenset({"get", "top"})
_BEFORE_A_KIND = frozenset({"get", "describe", "delete", "top", "logs", "label"})
# Verbs that signal: `kill -9 web` and `kill -HUP web` are what kill(1) takes.
_SIGNALLING = frozenset({"kill", "signal"})
_is_signal = re.compile(r"-(?:[0-9]{1,2}|(?:SIG)?[A-Z][A-Z0-9]{1,8})").fullmatch
# What `status`, which lists, shows of a process that is named.
_OF_ONE = MappingProxyType({"status": ("inspect",)})
# What a word means where nothing follows it: docker's `info` is about the whole, foreman's `start` about all
# services.
_ALONE = MappingProxyType({"info": ("doctor",), "start": ("up",)})

# A word that is no verb -> what does what it means. Whole sentences, shown behind "No such command".
SUGGESTIONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("save", "dump", "resurrect", "startup", "unstartup", "enable", "disable", "daemon-reload"),
            (
                "Nothing has to be saved: processes outlive terminal, client and server. `outlive service "
                "install` starts the server at every boot."
            ),
        ),
        **dict.fromkeys(
            ("build", "pull", "push", "images", "image", "commit", "tag-image", "volume", "network", "login"),
            (
                "outlive makes no images. `outlive run --backend docker --image IMAGE -- PROGRAM` runs in "
                "one that Docker has."
            ),
        ),
        **dict.fromkeys(
            ("apply", "compose"),
            "`outlive up -d` starts the services that a project's file declares (docs/services.md).",
        ),
        **dict.fromkeys(
            ("detach", "detach-client", "disown"),
            "Type ctrl-p ctrl-q in it (`--detach-keys`); `outlive run -d -- PROGRAM` begins detached.",
        ),
        **dict.fromkeys(
            (
                "reload",
                "update",
                "edit",
                "rename",
                "rename-session",
                "scale",
                "set",
                "rollout",
                "respawn-pane",
                "patch",
            ),
            (
                "A process keeps its command: `outlive restart ID` runs it again, `outlive run --name NAME "
                "--replace -- PROGRAM` puts another in its place."
            ),
        ),
        **dict.fromkeys(
            ("group", "groups", "parallel"),
            (
                "A group is made by its first process: `outlive run -d --group NAME --group-limit COUNT -- "
                "PROGRAM`."
            ),
        ),
        **dict.fromkeys(
            ("shell", "sh", "bash", "zsh", "console"),
            "`outlive terminal new` opens a shell that stays; `outlive run -t -- bash` one for a program.",
        ),
        **dict.fromkeys(
            (
                "split-window",
                "new-window",
                "neww",
                "splitw",
                "select-window",
                "list-windows",
                "select-pane",
                "windows",
            ),
            (
                "outlive draws no windows: `outlive terminal new` opens a shell that stays, `outlive attach "
                "ID` shows one process."
            ),
        ),
        **dict.fromkeys(
            ("port", "ports", "port-forward", "expose"),
            "A process listens on this machine's own ports: `outlive stats ID` shows which.",
        ),
        **dict.fromkeys(
            ("clean", "flush", "system", "reset"),
            (
                "`outlive df` shows what takes the disk, `outlive prune --dry-run` what has ended and would "
                "be forgotten."
            ),
        ),
        **dict.fromkeys(
            ("kill-server", "shutdown", "poweroff", "daemon", "quit", "exit"),
            (
                "The server ends by `outlive stop-server`, and nothing that runs ends with it; `outlive "
                "keeper status` shows what lives."
            ),
        ),
        **dict.fromkeys(
            ("login-server", "auth", "whoami"),
            "`outlive token list` shows which callers are let in, `docs/access.md` says how.",
        ),
        **dict.fromkeys(
            ("configure", "settings", "env", "source-file", "source"),
            (
                "`outlive config show` shows every setting; `outlive inspect ID` what a process was started "
                "with."
            ),
        ),
        "diff": (
            "`outlive inspect ID` shows what a process was started with, `outlive events` what "
            "changes from now on."
        ),
        "after": "`outlive wait ID && outlive run -- PROGRAM` runs one after another.",
        "enqueue": (
            "`outlive run -d --group NAME --group-limit COUNT -- PROGRAM` runs so many at once; the "
            "others wait in line."
        ),
        "stash": (
            "`outlive run -d --group NAME --group-limit COUNT -- PROGRAM` lets commands wait for their turn."
        ),
        "cron": "`outlive run -d -- PROGRAM` starts it now; cron(8) or a systemd timer can call that.",
        "check": (
            "`outlive doctor` shows what this machine offers, `outlive policy check` what the rules "
            "say of a command."
        ),
        "export": "`outlive service install` writes the units of systemd for the server.",
        "create": "`outlive run -d --name NAME -- PROGRAM` starts a process.",
        "update-self": "Install the newer version, then `outlive keeper upgrade`: every process goes on.",
        "upgrade": "Install the newer version, then `outlive keeper upgrade`: every process goes on.",
        "is-active": (
            "`outlive ps NAME` shows it; `outlive wait --timeout 0 NAME` says by its exit code "
            "whether it runs (124)."
        ),
        **dict.fromkeys(
            ("ping", "health", "cluster-info"), "`outlive doctor` shows whether all is well here."
        ),
        **dict.fromkeys(
            ("mask", "unmask", "reset-failed", "is-failed", "is-enabled"),
            (
                "Processes are no units: `outlive ps -a` shows how each has ended, `outlive service status` "
                "the server's own units."
            ),
        ),
        **dict.fromkeys(
            ("journalctl", "journal"), "`outlive logs NAME` prints a process's output, `-f` goes on."
        ),
        **dict.fromkeys(("format-status", "prettylist"), "`outlive ps --json` answers for programs."),
        "label": "`outlive tag ID NAME=VALUE` gives a process a label.",
        "switch": "Waiting commands keep their order: `outlive ps` shows it.",
        "man": "`outlive help VERB` shows a verb.",
    }
)
# A flag of other programs -> what does what it means. Only of flags that a verb lacks.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("-p", "--publish", "--expose"),
            "A process listens on this machine's own ports: nothing is published.",
        ),
        **dict.fromkeys(
            ("-v", "--volume", "--mount"),
            "A process has this machine's files: nothing is mounted (containers: docs/docker.md).",
        ),
        **dict.fromkeys(
            ("--network", "--net", "--link"),
            "`--profile offline` takes the network away; else it has this machine's.",
        ),
        **dict.fromkeys(
            ("--restart", "--max-restarts", "--watch"),
            "Nothing is started again by itself: `outlive restart ID` does it.",
        ),
        **dict.fromkeys(
            ("--env-file",), "`set -a; . FILE; set +a` in your shell: a command gets your whole environment."
        ),
        **dict.fromkeys(
            ("--user", "-u"), "A command runs as the server's user: `sudo -u USER` before the program."
        ),
        **dict.fromkeys(("--memory", "-m", "--cpus"), "`--limit memory=2G`, `--limit cpus=1.5` bound it."),
        **dict.fromkeys(
            ("-f", "--file", "--procfile", "--filename"),
            "`outlive up -f FILE` starts the services that a file declares.",
        ),
        **dict.fromkeys(
            ("--filter", "--selector"), "`--group NAME` and `--tag NAME=VALUE` choose, and names do."
        ),
        **dict.fromkeys(("--format", "-o", "--output"), "`--json` answers for programs."),
        **dict.fromkeys(("-l", "--latest"), "`-n 1` shows the newest; @last names it."),
        **dict.fromkeys(("--no-trunc", "--watch-only"), "`outlive inspect ID` shows a command whole."),
        **dict.fromkeys(
            ("--timestamps", "--previous"),
            (
                "Each run has an output of its own: `outlive ps -a` lists them; `--since TIME` begins at a "
                "moment."
            ),
        ),
        **dict.fromkeys(
            ("--delay", "--after"), "`outlive wait ID && outlive run -- PROGRAM` runs one after another."
        ),
        "-X": "`outlive send NAME TEXT` types into a process, `outlive stop NAME` ends it.",
        **dict.fromkeys(("-i", "-it", "--stdin"), "Your keys go to it anyway; `--read-only` looks on."),
    }
)


def about_flag(flag: str) -> str:
    """Return a sentence on what to use instead of a flag that a verb lacks.

    Empty for one that nothing is known of.
    """
    return FLAGS.get(flag, "")


# What only ends or removes things is proposed to no mistyped word.
_DESTRUCTIVE = frozenset({"kill", "stop", "rm", "prune", "uninstall", "deny", "signal", "restart"})
_CLOSE = 0.66  # of difflib's measure: "tpo" is "top", "lgos" is "logs"


def translated(words: Sequence[str]) -> list[str]:
    """Return a command line in outlive's own verbs, from one that begins with a verb of outlive's or another
    program's.

    A verb of ours stays as it is, whatever stands behind it: only a signal before the first name (`kill -9
    web`) and tmux's target (`attach -t web`) are put where our own verbs take them.
    """
    if not words:
        return []
    if list(words[:2]) == ["system", "df"]:  # docker's
        words = words[1:]
    if words[0] in {"container", "process", "compose"} and len(words) > 1:
        words = words[1:]
    first, *rest = words
    # `delete job` may be about a process of that name; `get pods` cannot.
    if first in _BEFORE_A_KIND and rest and rest[0] in _KINDS and (len(rest) > 1 or first in _OF_KINDS):
        rest = rest[1:]
    if first in _ALONE and not rest:
        return [*_ALONE[first]]
    if first in _OF_ONE and any(not word.startswith("-") for word in rest):
        return [*_OF_ONE[first], *rest]
    verb, *flags = ALIASES.get(first, (first,))
    if first in _TARGETING:
        rest = _of_tmux(rest)
        rest = _typed(rest) if first == "send-keys" else rest
    if rest and verb in _SIGNALLING and _is_signal(rest[0]):
        name = rest.pop(0)[1:]
        rest = [*(("--signal",) if verb == "kill" else ()), name, *rest]
    return [verb, *flags, *rest]


# On one line of the program's help: what people look for first.
ALIAS_LINE = (
    "Also: ls, list, status (ps); history (ps -a); top (stats);\n"
    "start, add (run -d); exec, new (run); log, follow, tail (logs);\n"
    "show (inspect); remove (rm); continue (resume); help COMMAND; version."
)
# screen has flags in the place of verbs.
_OF_SCREEN = MappingProxyType({"-ls": ("ps",), "-list": ("ps",), "-r": ("attach",), "-x": ("attach",)})
# tmux names what it means by -t; its windows and panes are of no use here. A window of a terminal's own is
# printed by -p.
_TARGETING = frozenset(
    {"a", "attach", "attach-session", "capture-pane", "has-session", "kill-session", "send-keys"}
)
# tmux's keys -> ours (`outlive send --key`).
_KEYS = MappingProxyType(
    {
        "Enter": "enter",
        "C-m": "enter",
        "Tab": "tab",
        "Escape": "escape",
        "C-c": "ctrl-c",
        "C-d": "ctrl-d",
        "C-z": "ctrl-z",
    }
)


def of_screen(words: Sequence[str]) -> list[str]:
    """Return a command line in verbs, from one that may have screen's flags in the place of a verb."""
    if words and words[0] in _OF_SCREEN:
        return [*_OF_SCREEN[words[0]], *words[1:]]
    if len(words) > 2 and words[0] in {"-dmS", "-S"}:  # a name, and a command that begins detached, or here
        detached = ["--detach"] if words[0] == "-dmS" else []
        return ["run", *detached, "--name", words[1], "--", *words[2:]]
    return list(words)


def _of_tmux(words: Sequence[str]) -> list[str]:
    """Return the words behind one of tmux's verbs: the target first, without -t and -p."""
    rest = [word for word in words if word != "-p"]
    if "-t" in rest[:-1]:
        place = rest.index("-t")
        target = rest[place + 1].partition(":")[0]
        rest = [target, *rest[:place], *rest[place + 2 :]]
    return rest


def _typed(words: Sequence[str]) -> list[str]:
    """Return what `send` takes, from a target, texts and keys as `tmux send-keys` has them."""
    target, texts, keys = list(words[:1]), list(words[1:]), list[str]()
    while texts and texts[-1] in _KEYS:
        keys.insert(0, _KEYS[texts.pop()])
    # Behind a text the first Enter is the newline that `send` writes anyway.
    ends_line = bool(texts) and keys[:1] == ["enter"]
    flags = [flag for key in keys[ends_line:] for flag in ("--key", key)]
    if texts and not ends_line:
        flags.append("--no-newline")
    return [*target, *(["".join(texts)] if texts else []), *flags]


def suggestion(word: str, verbs: Sequence[str]) -> str:
    """Return a sentence on what to type instead of a word that is no verb; empty where nothing is near.

    Args:
        word: What was typed.
        verbs: The verbs that there are.
    """
    if (said := SUGGESTIONS.get(word.lower())) is not None:
        return said
    import difflib  # noqa: PLC0415 -- start-up time: only a mistake needs it

    near = difflib.get_close_matches(
        word.lower(), [*(set(verbs) - _DESTRUCTIVE), *ALIASES], n=1, cutoff=_CLOSE
    )
    if not near or ALIASES.get(near[0], near)[0] in _DESTRUCTIVE:
        return ""
    return f"Did you mean `outlive {near[0]}`?"
