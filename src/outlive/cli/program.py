"""Every verb of `outlive`: its name, its sentence, and where it is; what it takes and does is in the file of its name.

A verb's file is imported when the verb is called. So `outlive --help` imports none of them, and `outlive ps` one.
"""

import importlib
from collections.abc import Sequence
from typing import NamedTuple

from outlive.cli.parameters import Action, Parameter, option, switch

NAME = "outlive"


class Verb(NamedTuple):
    """One verb: its name, the first paragraph of its help, and its action as "module:function" below `outlive.cli`."""

    name: str
    about: str
    where: str

    @property
    def action(self) -> Action[...]:
        """What it takes and does; imports it."""
        module, _, function = self.where.partition(":")
        action = getattr(importlib.import_module(f"outlive.cli.{module}"), function)
        assert isinstance(action, Action)
        return action


class Group(NamedTuple):
    """Verbs behind a common word."""

    name: str
    about: str
    verbs: "Sequence[Verb | Group]"

    def find(self, name: str) -> "Verb | Group | None":
        """Return the verb or group of that name."""
        return next((one for one in self.verbs if one.name == name), None)


PROGRAM = Group(
    NAME,
    "Runs commands that outlive their caller: output and exit codes survive every crash.",
    (
        Verb(
            "run",
            "Run a command as if outlive were not there: streams, signals, terminal, exit code; it outlives us all.",
            "verbs.run:run",
        ),
        Verb(
            "attach",
            "Bring a process that runs to the foreground: its last lines, what follows, your keys, its exit code.",
            "verbs.attach:attach",
        ),
        Verb("ps", "List processes, newest first.", "verbs.ps:ps"),
        Verb(
            "logs", "Print a process's output: its stdout to stdout, its stderr to stderr.", "logs.logs:logs"
        ),
        Verb("inspect", "Show everything about processes.", "verbs.inspect:inspect"),
        Verb(
            "wait",
            "Wait for the end, a text, a port or a question; exit as the process did (124 when the time is up).",
            "verbs.wait:wait",
        ),
        Verb("send", "Write to a process's input.", "verbs.send:send"),
        Verb("answer", "Answer what a process asks; a password is not shown.", "verbs.answer:answer"),
        Verb("pause", "Stop whole process trees until `resume`.", "verbs.control:pause"),
        Verb("resume", "Continue process trees.", "verbs.control:resume"),
        Verb(
            "kill", "End whole process trees without waiting: TERM, and KILL at once.", "verbs.control:kill"
        ),
        Verb("stop", "End whole process trees: TERM, the grace period, KILL.", "verbs.control:stop"),
        Verb("signal", "Send a signal.", "verbs.control:signal"),
        Verb(
            "stats",
            "Show what process trees use: processor, memory, pids, ports, whether they wait for input.",
            "verbs.stats:stats",
        ),
        Verb(
            "events",
            "Report what happens to processes from now on, a line each, until Ctrl-C.",
            "verbs.events:events",
        ),
        Verb("tag", "Change a process's tags, while it runs and afterwards.", "verbs.tag:tag"),
        Verb("rm", "Forget processes that have ended: their records and their output.", "verbs.prune:rm"),
        Verb(
            "prune",
            "Forget all processes that have ended, or some of them; what runs stays.",
            "verbs.prune:prune",
        ),
        Verb(
            "approvals",
            "List what waits for a person's approval: which caller wants to start what, and until when.",
            "operator.approvals:approvals",
        ),
        Verb(
            "approve",
            "Let commands start that wait for an approval, exactly as they were shown.",
            "operator.approvals:approve",
        ),
        Verb("deny", "Refuse commands that wait for an approval: they never run.", "operator.approvals:deny"),
        Verb(
            "install",
            "Have an MCP host run outlive: write its configuration, keeping everything else in it.",
            "machine.install:install",
        ),
        Verb(
            "uninstall",
            "Take outlive out of an MCP host's configuration again, keeping everything else in it.",
            "machine.install:uninstall",
        ),
        Verb(
            "completion",
            "Print what makes a shell complete outlive's words.",
            "machine.completion_scripts:completion",
        ),
        Verb("serve", "Start the server. Ctrl-C stops the server, not the processes.", "server.serve:serve"),
        Verb(
            "doctor",
            "Show what this machine offers, what is degraded, and to what.",
            "machine.doctor:doctor",
        ),
        Verb(
            "mcp",
            "Speak MCP on stdin and stdout for a host, by way of the server, which is started if there is none.",
            "server.mcp:mcp",
        ),
        Group(
            "keeper",
            "Look after the processes that look after the commands.",
            (
                Verb(
                    "status",
                    "Show which processes keep the commands, how many commands live, and whether every descriptor is held twice.",
                    "server.keeper:status",
                ),
                Verb(
                    "upgrade",
                    "Replace the keeper by the installed version; every command goes on.",
                    "server.keeper:upgrade",
                ),
                Verb(
                    "stop",
                    "End the keeper; refused while processes live, unless --kill. "
                    "What does not end is named, and may be asked to end again.",
                    "server.keeper:stop",
                ),
                Verb(
                    "run",
                    "Run the keeper in the foreground, for a unit of systemd; Ctrl-C ends this, not the keeper.",
                    "server.keeper_run:run",
                ),
            ),
        ),
        Group(
            "config",
            "Show how the server is set up.",
            (
                Verb(
                    "show",
                    "Show every setting of a server that is started here and now.",
                    "operator.config:show_settings",
                ),
            ),
        ),
        Group(
            "policy",
            "Ask what the rules say.",
            (
                Verb(
                    "check",
                    "Explain what the rules say about a command, and start nothing: "
                    "0 it may run, 3 it is asked about, 4 it may not.",
                    "operator.policy:check",
                ),
            ),
        ),
        Group(
            "service",
            "Have systemd look after keeper and server, each in a unit.",
            (
                Verb(
                    "install",
                    "Write both units; start the server now and at every boot.",
                    "machine.service:install",
                ),
                Verb(
                    "uninstall",
                    "Stop the server and remove both units; what runs lives on.",
                    "machine.service:uninstall",
                ),
                Verb(
                    "status",
                    "Show whether both units are active, and what the keeper keeps.",
                    "machine.service:status",
                ),
            ),
        ),
        Group(
            "terminal",
            "Use terminals: shells that stay, for people and agents.",
            (
                Verb("ls", "List those that are open.", "verbs.terminal:ls"),
                Verb("new", "Open one and print its id.", "verbs.terminal:new"),
                Verb(
                    "exec",
                    "Run a command there; print what it printed, and exit as it did (124: it still runs).",
                    "verbs.terminal:execute",
                ),
                Verb("send", "Type into one, whatever runs there.", "verbs.terminal:send"),
                Verb("read", "Print what one shows, open or closed.", "verbs.terminal:read"),
                Verb(
                    "attach",
                    "Bring one to the foreground, as `outlive attach` does a process.",
                    "verbs.terminal:attach",
                ),
                Verb("close", "Close them: their shells and what runs there end.", "verbs.terminal:close"),
            ),
        ),
        Group(
            "token",
            "Make and take back tokens, for callers that are not let in by their user.",
            (
                Verb("create", "Make a token and show it, this once.", "operator.token:create"),
                Verb(
                    "list",
                    "List tokens: names, scopes, ages, never the tokens themselves.",
                    "operator.token:list_all",
                ),
                Verb(
                    "revoke",
                    "Take a token back: it counts no more, and what its holder has open ends.",
                    "operator.token:revoke",
                ),
            ),
        ),
        Group(
            "containers",
            "Look after the containers that outlive has made for commands.",
            (
                Verb(
                    "ls",
                    "List the state folder's containers: image, age, state, and the processes that live in them.",
                    "operator.containers:ls",
                ),
                Verb(
                    "rm",
                    "Remove containers, and all that is in them but mounted folders; the next command makes one anew.",
                    "operator.containers:rm",
                ),
            ),
        ),
        Group(
            "audit",
            "Look at what each caller did: the audit log.",
            (
                Verb("verify", "Check that no entry was changed, removed or added.", "operator.audit:verify"),
                Verb("show", "Print entries, oldest first.", "operator.audit:show_entries"),
                Verb(
                    "begin",
                    "Set a broken log aside, which is kept, and begin a new one; no server may run.",
                    "operator.audit:begin",
                ),
            ),
        ),
    ),
)
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
TOP_PARAMETERS = (_HOST, _TOKEN_FILE, _CA, switch("--version", about="Print the version."))


def parameters_of(group: Group) -> tuple[Parameter, ...]:
    """Return what may stand before the verb: only of the program itself there is anything."""
    return TOP_PARAMETERS if group is PROGRAM else ()
