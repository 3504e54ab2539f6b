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

# What outlive calls it, and what others do; what follows an alias follows these words.
_ALIASES = {
    "ps --json": "jlist",
    "attach": "a attach-session connect fg foreground",
    "run --detach --known": "add start",
    "resume": "bg background continue unpause",
    "logs": "capture-pane log",
    "completion": "completions",
    "rm": "del delete remove",
    "inspect": "describe has-session info show",
    "df": "du usage",
    "run --inside": "exec",
    "logs --follow": "follow tail",
    "ps": "get jobs list list-sessions list-units ls status",
    "ps --all": "history",
    "stop": "kill-session",
    "stats": "monit top",
    "run": "new new-session",
    "run --detach": "nohup",
    "ui": "open",
    "rename": "rename-session",
    "signal": "sendSignal",
    "send": "send-keys",
    "cp": "copy scp",
    "pause": "suspend",
    "restart": "try-restart",
}
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {alias: tuple(ours.split()) for ours, theirs in _ALIASES.items() for alias in theirs.split()}
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

_OF_DOCKER = (
    "outlive makes no images, Docker does: `docker {line}`. `outlive run --backend docker --image IMAGE -- "
    "PROGRAM` runs in one that Docker has."
)
# Words that are no verbs -> what does what they mean. Whole sentences, shown behind "No such command".
_SUGGESTIONS = {
    "save dump resurrect startup unstartup enable disable daemon-reload": (
        "Nothing has to be saved: processes outlive terminal, client and server. `outlive service install` "
        "starts the server at every boot."
    ),
    "build builder buildx pull push images image commit load import": _OF_DOCKER,
    "volume network login logout manifest swarm": _OF_DOCKER,
    "apply compose startorrestart startorreload startorgracefulreload": (
        "`outlive up -d` starts the services that a project's outlive.processes.toml or Procfile declares "
        "(docs/services.md)."
    ),
    "detach detach-client disown": (
        "Type ctrl-p ctrl-q in it (`--detach-keys`); `outlive run -d -- PROGRAM` begins detached."
    ),
    "update edit set rollout respawn-pane patch": (
        "A process keeps its command: `outlive restart ID` runs it again, `outlive run --name NAME --replace "
        "-- PROGRAM` puts another in its place."
    ),
    "group groups parallel": (
        "`outlive ps --group NAME` lists a group; its first process makes it: `outlive run -d --group NAME "
        "--group-limit COUNT -- PROGRAM`."
    ),
    "shell sh bash zsh console": (
        "`outlive terminal new` opens a shell that stays; `outlive run -t -- bash` one for a program."
    ),
    "split-window new-window neww splitw select-window list-windows select-pane windows": (
        "outlive draws no windows: `outlive terminal new` opens a shell that stays, `outlive attach ID` "
        "shows one process."
    ),
    "port ports port-forward expose": (
        "A process listens on this machine's own ports: `outlive stats ID` shows which."
    ),
    "clean flush system reset": (
        "`outlive df` shows what takes the disk, `outlive prune --dry-run` what has ended and would be "
        "forgotten."
    ),
    "kill-server shutdown poweroff daemon quit exit": (
        "The server ends by `outlive stop-server`, and nothing that runs ends with it; `outlive keeper "
        "status` shows what lives."
    ),
    "login-server auth whoami": (
        "`outlive token list` shows which callers are let in, `docs/access.md` says how."
    ),
    "configure settings env source-file source": (
        "`outlive config show` shows every setting; `outlive inspect ID` what a process was started with."
    ),
    "diff": (
        "`outlive inspect ID` shows what a process was started with, `outlive events` what changes from now "
        "on."
    ),
    "after": "`outlive wait ID && outlive run -- PROGRAM` runs one after another.",
    "enqueue": (
        "`outlive run -d --group NAME --group-limit COUNT -- PROGRAM` runs so many at once; the others wait "
        "in line."
    ),
    "stash": (
        "`outlive run -d --group NAME --group-limit COUNT -- PROGRAM` lets commands wait for their turn."
    ),
    "cron at schedule list-timers": (
        "`outlive run -d -- PROGRAM` starts it now; cron(8) or a systemd timer can call that."
    ),
    "check": (
        "`outlive up --dry-run` reads a project's services, `outlive doctor` this machine, `outlive policy "
        "check` what the rules say of a command."
    ),
    "export": "`outlive service install` writes the units of systemd for the server.",
    "create init ecosystem generate": (
        "`outlive run -d --name NAME -- PROGRAM` starts a process; a project's services stand in "
        "outlive.processes.toml, as docs/services.md shows, and `outlive up` starts them."
    ),
    "reload force-reload try-reload-or-restart": (
        "`outlive signal HUP ID` has a process read its settings anew, `outlive restart ID` runs it again."
    ),
    "trigger dispatch": (
        "`outlive send ID TEXT` types into a process, `outlive signal USR1 ID` sends it a signal."
    ),
    "scale": "`outlive rerun ID` runs a process's command once more, beside it.",
    "deploy": (
        "`outlive cp FOLDER NODE:FOLDER` copies to another machine, `outlive run --backend NODE -- PROGRAM` "
        "runs there (docs/fleet.md)."
    ),
    "checkpoint": "No state is saved: `outlive pause ID` stops a process until `outlive resume ID`.",
    "profile:mem profile:cpu heapdump": (
        "`outlive keeper status` shows the pids of outlive's own, `outlive stats` what processes use."
    ),
    "pid id getpid": "`outlive ps NAME` shows id and pid, `outlive inspect NAME` all of it.",
    "list-sockets netstat": "`outlive stats` shows the ports on which each process listens.",
    "list-automounts list-mounts list-paths list-devices list-unit-files list-jobs": (
        "outlive has processes, which `outlive ps -a` lists; units are systemd's: `systemctl {line}`."
    ),
    "list-dependencies": (
        "A service waits for what its `after` in outlive.processes.toml names: `outlive up -d NAME` starts "
        "them all."
    ),
    "bind-key bind unbind-key list-keys": (
        "The keys that leave a process are `outlive attach --detach-keys KEYS ID`; there are no others."
    ),
    "grep": "`outlive search TEXT` finds a text in all output, `outlive search TEXT ID` in one's.",
    "web dashboard browser": "`outlive ui` opens the page of your processes in a browser.",
    "update-self upgrade": "Install the newer version, then `outlive keeper upgrade`: every process goes on.",
    "is-active": (
        "`outlive ps NAME` shows it; `outlive wait --timeout 0 NAME` says by its exit code whether it runs "
        "(124)."
    ),
    "ping health cluster-info": "`outlive doctor` shows whether all is well here.",
    "mask unmask reset-failed is-failed is-enabled": (
        "Processes are no units: `outlive ps -a` shows how each has ended, `outlive service status` the "
        "server's own units."
    ),
    "journalctl journal": "`outlive logs NAME` prints a process's output, `-f` goes on.",
    "format-status prettylist": "`outlive ps --json` answers for programs.",
    "label": "`outlive tag ID NAME=VALUE` gives a process a label.",
    "switch": "Waiting commands keep their order: `outlive ps` shows it.",
    "man": "`outlive help VERB` shows a verb.",
}
SUGGESTIONS: Mapping[str, str] = MappingProxyType(
    {word: said for words, said in _SUGGESTIONS.items() for word in words.split()}
)
_SERVICES_ELSEWHERE = "`outlive up -f FILE` starts the services that a file declares."
_ENVIRONMENT_FILE = "`set -a; . FILE; set +a` in your shell: a command gets your whole environment."
_KIND_OF_TERMINAL = (
    "A command's terminal is of the kind that yours is: `TERM=xterm-256color outlive run -t -- PROGRAM`."
)
_OTHER_SERVER = "Another server has a folder of its own: `outlive --state-dir FOLDER ps`."
_FILTERS = "`--group NAME` and `--tag NAME=VALUE` choose, and names do."
_FOR_PROGRAMS = "`--json` answers for programs."
# A verb ("" is the program itself, before any verb) -> a flag of other programs that it lacks -> what does
# what it means.
_FLAGS = {
    "": {
        "-2 -8 -T": _KIND_OF_TERMINAL,
        "-C -CC": "`outlive ps --json` and `outlive events --json` are for programs.",
        "-D": "`outlive serve` is the server in the foreground.",
        "-l": "`outlive run -t -- bash -l` is a login shell.",
        "-N": "`--no-start` behind a verb starts no server: `outlive ps --no-start`.",
        "-u": "Text passes as it is: `LANG=C.UTF-8 outlive run -t -- PROGRAM`.",
        "-v --verbose --debug": "`outlive serve --log-level debug` says more.",
        "-f --config": "`outlive config show --origin` shows each setting and the file in which it stands.",
        "-L -S --context": _OTHER_SERVER,
        "-H": "`outlive --host URL ps` asks another machine's server.",
        "-X": "`outlive send NAME TEXT` types into a process, `outlive stop NAME` ends it.",
        "-d --daemon": "`outlive run -d -- PROGRAM` begins in the background.",
    },
    "run": {
        "-p --publish --expose": "A process listens on this machine's own ports: nothing is published.",
        "-v --volume --mount": (
            "A process has this machine's files: nothing is mounted (containers: docs/docker.md)."
        ),
        "--network --net --link": "`--profile offline` takes the network away; else it has this machine's.",
        "--restart --max-restarts --watch": (
            'A service is started again by itself, with restart = "always" in outlive.processes.toml '
            "(docs/services.md); anything else by `outlive restart ID`."
        ),
        "--env-file": _ENVIRONMENT_FILE,
        "--user -u": "A command runs as the server's user: `sudo -u USER` before the program.",
        "--memory -m --cpus": "`--limit memory=2G`, `--limit cpus=1.5` bound it.",
        "-f --file --filename": _SERVICES_ELSEWHERE,
        "--delay --after": "`outlive wait ID && outlive run -- PROGRAM` runs one after another.",
    },
    "up": {
        "-e --env --env-file": (
            "A Procfile's services get `.env`, which lies beside it; others what `env_file` in "
            "outlive.processes.toml names."
        ),
        "-m --formation --concurrency --scale": (
            "A service runs once: give each a line (web1, web2); `outlive up web1` starts one."
        ),
        "-p --port": "`PORT=5000 outlive up` gives the first port.",
        "-t": "`grace` of a service in outlive.processes.toml is its time between TERM and KILL.",
    },
    "ps": {
        "--filter --selector": _FILTERS,
        "-f": (
            "`outlive inspect ID` shows a command whole. `--group NAME` and `--tag NAME=VALUE` choose, and "
            "names do."
        ),
        "--format -o --output": _FOR_PROGRAMS,
        "-l --latest": "`-n 1` shows the newest; @last names it.",
        "--no-trunc": "`outlive inspect ID` shows a command whole.",
        "-w --watch": "`outlive stats` shows it anew each second.",
    },
    "inspect": {
        "-f --format -o --output": (
            "`outlive inspect --json ID` answers for programs: pipe it to `jq .processes[0].state`."
        ),
    },
    "logs": {
        "-p --previous": (
            "Each run has its own output: `outlive ps -a` lists them, `outlive logs ID` prints one."
        ),
        "-u --unit": "The name alone is enough: `outlive logs NAME`.",
        "--stderr --err": "`outlive logs --stream stderr ID` prints stderr alone.",
        "--stdout --out": "`outlive logs --stream stdout ID` prints stdout alone.",
    },
    "serve": {
        "-d --detach --daemon --background": (
            "`outlive service install` has systemd run it; without, `outlive ps` starts one that stays, as "
            "every verb does where none runs."
        ),
    },
    "attach": {
        "-i -it --stdin": "Your keys go to it anyway; `--read-only` looks on.",
    },
    "stop": {
        "-f --force": "`--grace 0` leaves it no time.",
    },
}
FLAGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        verb: {flag: said for flags, said in sentences.items() for flag in flags.split()}
        for verb, sentences in _FLAGS.items()
    }
)


def about_flag(verb: str, flag: str) -> str:
    """Return a sentence on what to use instead of a flag that a verb lacks.

    Empty for one that nothing is known of.
    """
    return FLAGS.get(verb, {}).get(flag, "")


# What only ends or removes things is proposed to no mistyped word.
_DESTRUCTIVE = frozenset({"kill", "stop", "rm", "prune", "uninstall", "deny", "signal", "restart"})
# A flag of foreman's `start` -> what its value looks like ("" takes none), and the flag of `up` that it is
# (none for what `up` does anyway).
_OF_FOREMAN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "-f": (r".+", "-f"),
        "--procfile": (r".+", "-f"),
        "-d": (r"[./~].*", "-f"),
        "--root": (r".+", "-f"),
        "-e": (r"[^=]+", "-e"),
        "--env": (r"[^=]+", "-e"),
        "-m": (r".+=.+", "-m"),
        "--formation": (r".+=.+", "-m"),
        "-p": (r"\d+", "-p"),
        "--port": (r"\d+", "-p"),
        "-t": (r"\d+", "-t"),
        "-c": ("", ""),
        "--color": ("", ""),
        "--timestamp": ("", ""),
        "--no-timestamp": ("", ""),
    }
)


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
    if first == "start" and (flags_of_up := _of_foreman(rest)) is not None:
        return ["up", *flags_of_up]
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


_TELLING = frozenset({"--known", "--inside"})  # hidden flags that tell an alias from the verb


def about_alias(words: Sequence[str]) -> list[str]:
    """Return what stands before the help of another program's word: what it is here; nothing for a verb."""
    if len(words) != 1 or words[0] not in ALIASES:
        return []
    ours = " ".join(word for word in ALIASES[words[0]] if word not in _TELLING)
    alone = f", and with nothing behind it `outlive {_ALONE[words[0]][0]}`" if words[0] in _ALONE else ""
    return [f"`outlive {words[0]} ...` is `outlive {ours}`{alone}.", ""]


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
    {
        *("a", "attach", "attach-session", "capture-pane", "has-session", "kill-session"),
        *("rename-session", "send-keys"),
    }
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
    """Return a command line in verbs, from one that may have screen's or tmux's flags in the place of a
    verb.
    """
    if words and words[0] in _OF_SCREEN:
        return [*_OF_SCREEN[words[0]], *words[1:]]
    if list(words[:1]) == ["-c"]:  # tmux's: a line of the shell
        return ["run", *words]
    # Behind tmux's -S stands a path.
    if (
        len(words) > 2 and words[0] in {"-dmS", "-S"} and "/" not in words[1]
    ):  # a name, and a command that begins detached, or here
        detached = ["--detach"] if words[0] == "-dmS" else []
        return ["run", *detached, "--name", words[1], "--", *words[2:]]
    return list(words)


def _of_foreman(words: Sequence[str]) -> list[str] | None:
    """Return flags of `up` for words that are nothing but flags of foreman's `start`; None for others."""
    found, rest = list[str](), list(words)
    while rest:
        flag, _, value = rest.pop(0).partition("=")
        form, ours = _OF_FOREMAN.get(flag, (None, ""))
        if form and not value and rest:
            value = rest.pop(0)
        if form is None or re.fullmatch(form, value) is None:
            return None
        found += [ours, value] if ours else []
    return found


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


def suggestion(words: Sequence[str], verbs: Sequence[str]) -> str:
    """Return a sentence on what to type instead of words whose first is no verb; empty where nothing is near.

    Args:
        words: What was typed.
        verbs: The verbs that there are.
    """
    word = words[0].lower()
    if (said := SUGGESTIONS.get(word)) is not None:
        return said.replace("{line}", " ".join(words))
    near = [one for one in (*verbs, *ALIASES) if _is_slip(word, one.lower())]
    meant = {ALIASES.get(one, (one,))[0] for one in near}
    if len(meant) != 1 or meant & _DESTRUCTIVE:
        return ""
    return f"Did you mean `outlive {near[0]}`?"


def _is_slip(typed: str, meant: str) -> bool:
    """Tell whether one letter is wrong, missing, too many, or has changed places with the next."""
    if min(len(typed), len(meant)) < 3:
        return False
    start = 0
    while typed[start : start + 1] == meant[start : start + 1] != "":
        start += 1
    typed, meant = typed[start:], meant[start:]
    return (
        typed[1:] == meant
        or typed == meant[1:]
        or (typed[2:] == meant[2:] and typed[:2] == meant[1::-1])
        or (start > 0 and typed[1:] == meant[1:])
    )
