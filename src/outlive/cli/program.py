"""Every verb of `outlive`: its name, its sentence, and where it is. `program` has those of extensions, too.

What it takes and does is in the file of its name.

A verb's file is imported when the verb is called. So `outlive --help` imports none of them, and `outlive ps`
one.
"""

import functools
import importlib
from collections.abc import Sequence
from typing import NamedTuple

from outlive.cli.parameters import STATE_DIR, Action, Parameter, option, switch

NAME = "outlive"


Examples = Sequence[tuple[str, str]]  # what is typed, and a word or some about it


class Verb(NamedTuple):
    """One verb: its name, the first paragraph of its help, and its action as "module:function"; a module that
    begins with a dot is below `outlive.cli`. `examples` are an extension's: `help.examples` has the core's.
    `is_local`: it works on files of this machine, and is refused where another server was asked for.
    """

    name: str
    about: str
    where: str
    examples: Examples = ()
    is_local: bool = False

    @property
    def action(self) -> Action[...]:
        """What it takes and does; imports it."""
        module, _, function = self.where.partition(":")
        action = getattr(importlib.import_module(module, "outlive.cli"), function)
        assert isinstance(action, Action)
        return action

    @property
    def explanation(self) -> str:
        """The sentence, and the paragraphs behind it: what help and manual pages begin with."""
        return f"{self.about}\n\n{more}" if (more := self.action.more) else self.about


class Group(NamedTuple):
    """Verbs behind a common word."""

    name: str
    about: str
    verbs: "Sequence[Verb | Group]"
    topics: Sequence[tuple[str, str]] = ()  # titles of a help page, and the names below each
    is_local: bool = False  # as a verb

    def find(self, name: str) -> "Verb | Group | None":
        """Return the verb or group of that name."""
        return next((one for one in self.verbs if one.name == name), None)


_KEEPER = (
    Verb(
        "status",
        (
            "Show the keeper's processes, and how many commands live. Also whether every descriptor is "
            "held twice."
        ),
        ".server.keeper:status",
    ),
    Verb(
        "upgrade",
        "Replace the keeper by the installed version; every command goes on.",
        ".server.keeper:upgrade",
    ),
    Verb(
        "stop",
        (
            "End the keeper, and the server before it. Refused while processes live, unless --kill. What "
            "does not end is named, and may be asked to end again."
        ),
        ".server.keeper:stop",
    ),
    Verb(
        "run",
        "Run the keeper in the foreground, for systemd. Ctrl-C ends this, not the keeper.",
        ".server.keeper:run",
    ),
)
_CONFIG = (
    Verb("show", "Show the settings a server would have here and now.", ".operator.config:show_settings"),
)
_POLICY = (
    Verb(
        "check",
        (
            "Say what the rules say about a command. It starts nothing: 0 it may run, 3 it is asked "
            "about, 4 it may not."
        ),
        ".operator.policy:check",
    ),
    Verb("always", "List what is approved for always.", ".operator.standing_approvals:always"),
    Verb("forget", "Ask again about what is approved for always.", ".operator.standing_approvals:forget"),
)
_SERVICE = (
    Verb("install", "Write both units; start the server now and at every boot.", ".machine.service:install"),
    Verb(
        "uninstall",
        "Stop the server and remove both units. What runs lives on.",
        ".machine.service:uninstall",
    ),
    Verb(
        "status", "Show whether both units are active, and what the keeper keeps.", ".machine.service:status"
    ),
)
_TERMINAL = (
    Verb("ls", "List those that are open.", ".verbs.terminal:ls"),
    Verb("new", "Open one and print its id.", ".verbs.terminal:new"),
    Verb(
        "exec",
        "Run a command there and print its output. It exits as the command did (124: it still runs).",
        ".verbs.terminal:execute",
    ),
    Verb("send", "Type into one, whatever runs there.", ".verbs.terminal:send"),
    Verb("read", "Print what one shows, open or closed.", ".verbs.terminal:read"),
    Verb(
        "attach",
        "Bring one to the foreground. As `outlive attach` does a process.",
        ".verbs.terminal:attach_terminal",
    ),
    Verb("close", "Close terminals. Their shells and what runs there end.", ".verbs.terminal:close"),
)
_TOKEN = (
    Verb("create", "Make a token and show it, this once.", ".operator.token:create"),
    Verb(
        "list", "List tokens. Names, scopes, ages, never the tokens themselves.", ".operator.token:list_all"
    ),
    Verb(
        "revoke",
        "Take a token back. It counts no more, and what its holder has open ends.",
        ".operator.token:revoke",
    ),
)
_AUDIT = (
    Verb("verify", "Check that no entry was changed, removed or added.", ".operator.audit:verify"),
    Verb("show", "Print entries, oldest first.", ".operator.audit:show_entries"),
    Verb(
        "begin",
        "Set a broken log aside, and begin a new one. The broken one is kept; no server may run.",
        ".operator.audit:begin",
    ),
)
_VERBS = (
    Verb(
        "run",
        (
            "Run a command that lives on, whatever happens to its caller. Streams, signals, terminal and "
            "exit code are as if outlive were not there."
        ),
        ".verbs.run:run",
    ),
    Verb(
        "attach",
        "Bring a running process to the foreground. Its last lines, what follows, your keys, its exit code.",
        ".verbs.attach:attach",
    ),
    Verb("ps", "List processes, newest first.", ".verbs.ps:ps"),
    Verb("rerun", "Run a process's command again, beside it if it lives.", ".verbs.rerun:rerun"),
    Verb(
        "logs",
        (
            "Print output, all of it or the end, and follow it. A process's stdout goes to stdout, its "
            "stderr to stderr."
        ),
        ".logs.logs:logs",
    ),
    Verb("search", "Find a text in the output of all processes.", ".logs.search:search"),
    Verb("inspect", "Show everything about processes.", ".verbs.records:inspect"),
    Verb(
        "wait",
        (
            "Wait for an end, a text, a port or a question. It exits as the process did (124 when the "
            "time is up)."
        ),
        ".verbs.wait:wait",
    ),
    Verb("send", "Write to a process's input.", ".verbs.input:send"),
    Verb(
        "cp", "Copy files and folders between machines. Cut, it goes on when it is repeated.", ".verbs.cp:cp"
    ),
    Verb("answer", "Answer what a process asks; a password is not shown.", ".verbs.input:answer"),
    Verb("pause", "Stop whole process trees until `resume`.", ".verbs.control:pause"),
    Verb("resume", "Continue process trees.", ".verbs.control:resume"),
    Verb("kill", "End process trees at once. TERM, and KILL without waiting.", ".verbs.control:kill"),
    Verb("stop", "End process trees. TERM, the grace period, KILL.", ".verbs.control:stop"),
    Verb("signal", "Send a signal.", ".verbs.control:signal"),
    Verb(
        "stats",
        "Show what process trees use. Processor, memory, pids, ports, whether they wait for input.",
        ".verbs.stats:stats",
    ),
    Verb(
        "events",
        "Print what happens to processes from now on. A line each, until Ctrl-C.",
        ".verbs.events:events",
    ),
    Verb("rename", "Give a process another name.", ".verbs.records:rename"),
    Verb("tag", "Change a process's tags, while it runs and afterwards.", ".verbs.records:tag"),
    Verb("rm", "Forget processes that have ended, with their output.", ".verbs.prune:rm"),
    Verb(
        "prune",
        "Forget what has ended, by age, state, group or tag. What runs stays.",
        ".verbs.prune:prune",
        is_local=True,
    ),
    Verb(
        "df",
        "Show what takes the disk. By project and state, with what the server will remove.",
        ".verbs.df:df",
    ),
    Verb(
        "approvals",
        "List what waits for approval. Which caller wants to start what, and until when.",
        ".operator.approvals:approvals",
    ),
    Verb(
        "approve",
        "Let commands start that wait for approval. Exactly as they were shown.",
        ".operator.approvals:approve",
    ),
    Verb("deny", "Refuse commands that wait for approval. They never run.", ".operator.approvals:deny"),
    Verb(
        "completion",
        "Print what makes a shell complete outlive's words.",
        ".machine.completion_scripts:completion",
    ),
    Verb(
        "serve",
        "Start the server. Ctrl-C stops the server, not the processes.",
        ".server.serve:serve",
        is_local=True,
    ),
    Verb(
        "stop-server",
        "Stop the server, whatever has started it. What runs lives on.",
        ".server.keeper:stop_server",
        is_local=True,
    ),
    Verb(
        "backup",
        "Write the state folder into one file, while everything runs.",
        ".operator.backup:backup",
        is_local=True,
    ),
    Verb(
        "restore",
        "Put a backup into a state folder. Nothing is started by it.",
        ".operator.backup:restore",
        is_local=True,
    ),
    Verb(
        "ui",
        "Open the page of your processes in a browser. It starts the server if there is none.",
        ".machine.ui:ui",
        is_local=True,
    ),
    Verb(
        "doctor",
        "Show what this machine offers, and what is degraded. Of each, to what, and what to do about it.",
        ".machine.doctor:doctor",
        is_local=True,
    ),
    Verb(
        "mcp",
        (
            "Speak MCP on stdin and stdout, for a host. By way of the server, which is started if there "
            "is none."
        ),
        ".server.mcp:mcp",
        is_local=True,
    ),
    Group("keeper", "Look after the processes that keep the commands.", _KEEPER, is_local=True),
    Group("config", "Show how the server is set up.", _CONFIG, is_local=True),
    Group("policy", "Ask what the rules say.", _POLICY, is_local=True),
    Group("service", "Have systemd run keeper and server.", _SERVICE, is_local=True),
    Group("terminal", "Use terminals: shells that stay, for people and agents.", _TERMINAL),
    Group("token", "Make tokens for callers from elsewhere, and take them back.", _TOKEN, is_local=True),
    Group("audit", "Look at what each caller did: the audit log.", _AUDIT, is_local=True),
)
_TOPICS = (
    ("Every day", "run ps logs search attach wait send stop"),
    (
        "More with processes",
        "cp answer rerun pause resume kill signal inspect stats events rename tag rm prune df terminal",
    ),
    ("Agents and approvals", "approvals approve deny"),
    ("This machine and its server", "ui serve stop-server service doctor config completion mcp keeper"),
    ("Operators", "backup restore policy token audit"),
)
PROGRAM = Group(
    NAME,
    "Runs commands that outlive their caller: output and exit codes survive every crash.",
    _VERBS,
    _TOPICS,
)


@functools.cache
def program() -> Group:
    """Return the program with the verbs of extensions, each behind those of its title on the help page.

    Raises:
        ConfigInvalid: An extension cannot be imported, or has a verb that there is already.
    """
    # Start-up time: a look at all installed packages, and most calls are of a verb of the core's.
    from outlive.extensions.contract import check_new, extensions, load  # noqa: PLC0415

    added = [load(one.verbs) for one in extensions() if one.verbs]
    topics = dict(PROGRAM.topics)
    found: dict[str, Verb | Group] = {one.name: one for one in PROGRAM.verbs}
    for titled in added:
        for title, verbs in titled.items():
            names = [one.name for one in verbs]
            check_new(names, found, kind="verb")
            found |= zip(names, verbs, strict=True)
            topics[title] = " ".join([*filter(None, [topics.get(title)]), *names])
    return PROGRAM._replace(verbs=tuple(found.values()), topics=tuple(topics.items()))


_HOST = option(
    "--host",
    metavar="URL",
    about="Talk to the server there instead of this machine's. Environment: OUTLIVE_HOST.",
)
_TOKEN_FILE = option(
    "--token-file",
    metavar="FILE",
    about="Its token. Environment: OUTLIVE_TOKEN_FILE, or the token itself: OUTLIVE_TOKEN.",
)
_CA = option(
    "--ca",
    metavar="FILE",
    about="PEM file of the authorities that count for it. Environment: OUTLIVE_CA.",
)
SERVER_PARAMETERS = (_HOST, _TOKEN_FILE, _CA)
TOP_PARAMETERS = (*SERVER_PARAMETERS, STATE_DIR, switch("--version", "-V", about="Print the version."))


def parameters_of(group: Group) -> tuple[Parameter, ...]:
    """Return what may stand before the verb: only of the program itself there is anything."""
    return TOP_PARAMETERS if group.name == NAME else ()
