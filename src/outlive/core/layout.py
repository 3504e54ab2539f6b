"""The names of all files in the state folder (`Layout`), and the words for what keeps it from being written
(`Degraded`).

Pure path arithmetic. Each file has one writer: the supervisor writes `out`, `err`, `idx`, `done`, `stop`,
`paused`, `gaps` and `live`; the shim writes `pid`; `exit` is written by the process that learns an end
without a shim; the server writes `registry.db`, `task`, and the folder of a command that was withdrawn.

The words are below everything else because the keeper finds the state out, the engine remembers it, and the
documents of all frontends describe it (decision 136). They are slugs of errors, too: `errors` has their
hints, `hints` their sentences.

Where the folder is when nothing but the environment says so (`default_state_dir`) is a rule that all programs
of ours share: `config.resolution` settles all settings; clients need this one only, and start faster without
the others.
"""

import os
from collections.abc import Mapping
from typing import Literal, get_args

from outlive.core.errors import ConfigInvalid

STREAM_FILES = ("out", "err")
# The end of the program of shims, behind the size (8 bytes, lowest first) of the library that precedes it.
LIBRARY_MARK = b"outflow1"
VARIABLE = "OUTLIVE_STATE_DIR"
# Of the setting and of the flag that most verbs take: a help page must not import all settings for it.
STATE_DIR_HELP = (
    "Folder of everything that must survive: output, exit codes, sockets "
    "(default: $XDG_STATE_HOME/outlive, else ~/.local/state/outlive)."
)


class Layout:
    """Paths below one state folder (`root` is absolute).

    A plain class: the keeper's image stays small without dataclasses (see `protocols.frames`).
    """

    ASIDE = ".copied"  # the suffix of a waiting command's file when the folder turned out to be a copy

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def processes(self) -> str:
        """Folder of the processes, one folder each, named by process id."""
        return f"{self.root}/processes"

    @property
    def prepared(self) -> str:
        """Folder of prepared process folders, renamed into `processes` at a start."""
        return f"{self.root}/prepared"

    @property
    def waiting(self) -> str:
        """Folder of the commands that wait for their group's turn, and of the groups' limits."""
        return f"{self.root}/waiting"

    @property
    def notices(self) -> str:
        """Folder of the notices that are owed, a file for each process, named by its id."""
        return f"{self.root}/notices"

    @property
    def spans(self) -> str:
        """Spans that no collector has taken yet."""
        return f"{self.root}/spans"

    @property
    def disk_alert(self) -> str:
        """Exists while the disk is low, as the operator has bounded it: since when, and whether that was
        notified of.
        """
        return f"{self.root}/disk.low"

    @property
    def services(self) -> str:
        """Folder of projects' services, a file for each principal and project."""
        return f"{self.root}/services"

    @property
    def notes(self) -> str:
        """Folder of the guardian's notes about commands it reaped, named <pid>.<start ticks>."""
        return f"{self.root}/notes"

    @property
    def identity(self) -> str:
        """Of which format and which folder this is, and where it was made:
        `kernel.folder_identity`.
        """
        return f"{self.root}/identity"

    @property
    def live(self) -> str:
        """Journal of live processes: lines "+id" and "-id"."""
        return f"{self.root}/live"

    @property
    def keeper_socket(self) -> str:
        """The socket on which the supervisor listens for the server and the command line."""
        return f"{self.root}/keeper.sock"

    @property
    def guardian_socket(self) -> str:
        """The socket on which the guardian listens for the supervisor."""
        return f"{self.root}/guardian.sock"

    @property
    def supervisor_lock(self) -> str:
        """Locked (flock) by the one supervisor; holds its pid."""
        return f"{self.root}/supervisor.lock"

    @property
    def supervisor_pid(self) -> str:
        """Also locked by the one supervisor; the kernel names its holder (`kernel.lock_proof`).

        It is empty.
        """
        return f"{self.root}/supervisor.pid"

    @property
    def guardian_lock(self) -> str:
        """Locked (flock) by the one guardian; holds its pid."""
        return f"{self.root}/guardian.lock"

    @property
    def keeper_lock(self) -> str:
        """Locked by the program that runs the keeper for a unit (`outlive keeper run`); holds its pid."""
        return f"{self.root}/keeper.lock"

    @property
    def server_lock(self) -> str:
        """Locked (flock) by the one server; holds its pid."""
        return f"{self.root}/server.lock"

    @property
    def server_socket(self) -> str:
        """The socket on which the server listens for the command line (HTTP over a Unix socket)."""
        return f"{self.root}/server.sock"

    @property
    def server_ports(self) -> str:
        """The JSON document with the server's addresses."""
        return f"{self.root}/server.json"

    @property
    def server_stopped(self) -> str:
        """Exists after an ordered stop of the server, with the boot id; `discovery.ownership` reads it."""
        return f"{self.root}/server.stopped"

    @property
    def server_wanted(self) -> str:
        """Exists while services are wanted: the guardian starts a server that was killed again."""
        return f"{self.root}/server.wanted"

    @property
    def restore_mark(self) -> str:
        """Exists while a restore puts files into this folder: what lies here is neither the old state nor the
        new one, whole.
        """
        return f"{self.root}/restore.incomplete"

    @property
    def operator_settings(self) -> str:
        """The settings of the last `outlive serve`, for servers that clients start."""
        return f"{self.root}/operator.json"

    @property
    def service(self) -> str:
        """The systemd unit that owns this folder's server."""
        return f"{self.root}/service.json"

    @property
    def programs(self) -> str:
        """Folder of the copies of outlive's native program that shims and containers run, named by their
        SHA-256.
        """
        return f"{self.root}/programs"

    @property
    def keeper_log(self) -> str:
        """The keeper's log, for people."""
        return f"{self.root}/keeper.log"

    @property
    def server_log(self) -> str:
        """The log of a server that `outlive mcp` has started, for people."""
        return f"{self.root}/server.log"

    @property
    def registry(self) -> str:
        """The SQLite index, rebuildable from the process folders."""
        return f"{self.root}/registry.db"

    @property
    def mcp_key(self) -> str:
        """The key that signs MCP session ids."""
        return f"{self.root}/mcp.key"

    @property
    def mcp_ended(self) -> str:
        """Names of the MCP sessions that their clients have ended, one a line."""
        return f"{self.root}/mcp.ended"

    @property
    def tokens(self) -> str:
        """The tokens, by the hashes of their secrets."""
        return f"{self.root}/tokens.json"

    @property
    def tokens_lock(self) -> str:
        """Locked (flock) by a program that changes the tokens."""
        return f"{self.root}/tokens.lock"

    @property
    def ui(self) -> str:
        """Folder of the files that open the page of outlive's own in a browser, each for a minute."""
        return f"{self.root}/ui"

    @property
    def bridge(self) -> str:
        """The terminals in VS Code that the bridge knows, with their owners."""
        return f"{self.root}/bridge.json"

    @property
    def extra_patterns(self) -> str:
        """The extra patterns that the last server redacted, one a line: programs that read files redact them,
        too.
        """
        return f"{self.root}/redact.extra"

    @property
    def retention_clock(self) -> str:
        """What is known of the clocks; finished processes age by it."""
        return f"{self.root}/retention-clock"

    @property
    def audit(self) -> str:
        """Folder of the audit log: files named by the number of their first entry, and a note of the newest
        one.
        """
        return f"{self.root}/audit"

    @property
    def audit_key(self) -> str:
        """The key of the audit log: a program that has it can forge entries."""
        return f"{self.root}/audit.key"

    @property
    def nodes(self) -> str:
        """Folder of the nodes, one folder for each by name: `live` in it has a file for each process that is
        followed there.
        """
        return f"{self.root}/nodes"

    @property
    def gateways(self) -> str:
        """Folder of the servers that this machine has joined, a file each.

        While it is there, a server is wanted.
        """
        return f"{self.root}/gateways"

    @property
    def containers(self) -> str:
        """Folder of the containers, one folder each, named as their plans are."""
        return f"{self.root}/containers"

    def container(self, name: str) -> str:
        """Folder of one container: `plan`, what it was made of; `init`, its first process; `hand`, mounted
        inside, read-only.
        """
        return f"{self.root}/containers/{name}"

    def runner_socket(self, name: str) -> str:
        """The socket of the runner inside a container.

        The socket was passed to it, its name is not visible inside.
        """
        return f"{self.root}/containers/{name}/runner.sock"

    def process(self, process_id: str) -> str:
        """Folder of one process."""
        return f"{self.root}/processes/{process_id}"


Degraded = Literal["disk_full", "disk_silent", "read_only", "folder_gone"]
DEGRADED: frozenset[str] = frozenset(get_args(Degraded))


def default_state_dir(environ: Mapping[str, str]) -> str:
    """Return the folder where neither flag, variable nor file names one.

    Raises:
        ConfigInvalid: `state_folder`: there is no home folder.
    """
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # relative ones are to be ignored (XDG Base Directory Specification 0.8)
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise ConfigInvalid(
                "state_folder",
                "There is no home folder to keep the state in (HOME is not set).",
                hint=f"Name a folder: --state-dir /path or {VARIABLE}=/path.",
            )
        base = f"{home}/.local/state"
    return f"{base}/outlive"


def absolute_path(path: str, environ: Mapping[str, str], working_folder: str) -> str:
    """Return a path as it is meant: below the home folder after `~`, else below the working folder."""
    if path == "~" or path.startswith("~/"):
        path = environ.get("HOME", "~") + path[1:]
    return os.path.normpath(os.path.join(working_folder, path))
