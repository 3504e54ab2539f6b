"""Where things lie in the state folder: the one list of file names, pure path arithmetic.

Each file has one writer: `out`, `err`, `idx`, `done`, `stop`, `paused`, `gaps`, `live` the supervisor,
`pid` the shim, `exit` who learns an end without a shim, `registry.db` and `task` the server; the folder of a command
that was withdrawn the server.

What may keep a state folder from being written, in the one word that every door says for it (decision 136).

It lies below everything else, for the keeper finds it out, the engine remembers it and the doors' documents describe it.
The words are slugs of errors, too: `errors` has their hints, `error_meanings` their sentences.
"""

from typing import Literal, get_args

STREAM_FILES = ("out", "err")


class Layout:
    """Paths below one state folder (`root` is absolute).

    A plain class: the keeper's image stays small without dataclasses (see `protocols.frames`).
    """

    ASIDE = ".copied"  # ends the name of what waited when the folder was copied

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        """Take the state folder."""
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
    def notes(self) -> str:
        """Folder of the guardian's notes about commands it reaped, named <pid>.<start ticks>."""
        return f"{self.root}/notes"

    @property
    def identity(self) -> str:
        """Which folder this is, and where it was made: `keeper.folder_identity`."""
        return f"{self.root}/identity"

    @property
    def live(self) -> str:
        """Journal of live processes: lines "+id" and "-id"."""
        return f"{self.root}/live"

    @property
    def keeper_socket(self) -> str:
        """Where the supervisor listens for the server and the command line."""
        return f"{self.root}/keeper.sock"

    @property
    def guardian_socket(self) -> str:
        """Where the guardian listens for the supervisor."""
        return f"{self.root}/guardian.sock"

    @property
    def supervisor_lock(self) -> str:
        """Locked (flock) by the one supervisor; holds its pid."""
        return f"{self.root}/supervisor.lock"

    @property
    def supervisor_pid(self) -> str:
        """Locked by the one supervisor, too, in the way in which the kernel tells its pid: `keeper.pid_lock`. It is empty."""
        return f"{self.root}/supervisor.pid"

    @property
    def guardian_lock(self) -> str:
        """Locked (flock) by the one guardian; holds its pid."""
        return f"{self.root}/guardian.lock"

    @property
    def keeper_lock(self) -> str:
        """Locked by whoever runs the keeper for a unit (`outlive keeper run`); holds its pid."""
        return f"{self.root}/keeper.lock"

    @property
    def server_lock(self) -> str:
        """Locked (flock) by the one server; holds its pid."""
        return f"{self.root}/server.lock"

    @property
    def server_socket(self) -> str:
        """Where the server listens for the command line (HTTP over a Unix socket)."""
        return f"{self.root}/server.sock"

    @property
    def server_ports(self) -> str:
        """The JSON document that tells where the server listens."""
        return f"{self.root}/server.json"

    @property
    def server_stopped(self) -> str:
        """There after an ordered stop of the server, with the boot id; `presence.ownership` reads it."""
        return f"{self.root}/server.stopped"

    @property
    def operator_settings(self) -> str:
        """What the last `outlive serve` was told, for servers that clients start."""
        return f"{self.root}/operator.json"

    @property
    def service(self) -> str:
        """Which unit of systemd owns this folder's server."""
        return f"{self.root}/service.json"

    @property
    def keeper_log(self) -> str:
        """What the keeper has to say, for people."""
        return f"{self.root}/keeper.log"

    @property
    def server_log(self) -> str:
        """What a server that `outlive mcp` has started has to say, for people."""
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
        """Locked (flock) by whoever changes the tokens."""
        return f"{self.root}/tokens.lock"

    @property
    def bridge(self) -> str:
        """The terminals in VS Code that the bridge knows, by whose they are."""
        return f"{self.root}/bridge.json"

    @property
    def extra_patterns(self) -> str:
        """What the server that ran last hid beyond the known patterns, one a line: whoever reads files hides it, too."""
        return f"{self.root}/redact.extra"

    @property
    def retention_clock(self) -> str:
        """What is known of the clocks: by it finished processes grow old."""
        return f"{self.root}/retention-clock"

    @property
    def audit(self) -> str:
        """Folder of the audit log: files named by the number of their first entry, and a note of the newest one."""
        return f"{self.root}/audit"

    @property
    def audit_key(self) -> str:
        """The key of the audit log: who has it can forge entries."""
        return f"{self.root}/audit.key"

    @property
    def nodes(self) -> str:
        """Folder of the nodes, one folder each by name: `live`, the processes that are followed there, a file each."""
        return f"{self.root}/nodes"

    @property
    def containers(self) -> str:
        """Folder of the containers, one folder each, named as their plans are."""
        return f"{self.root}/containers"

    def container(self, name: str) -> str:
        """Folder of one container: `plan`, what it was made of; `init`, its first process; `hand`, mounted inside, read-only."""
        return f"{self.root}/containers/{name}"

    def runner_socket(self, name: str) -> str:
        """Where the runner inside a container listens; the socket was handed to it, its name is not seen inside."""
        return f"{self.root}/containers/{name}/runner.sock"

    def stand_socket(self, name: str) -> str:
        """Where listens what stands here for a container that no socket reaches."""
        return f"{self.root}/containers/{name}/run/runner.sock"

    def process(self, process_id: str) -> str:
        """Folder of one process."""
        return f"{self.root}/processes/{process_id}"


Degraded = Literal["disk_full", "read_only", "folder_gone"]
DEGRADED: frozenset[str] = frozenset(get_args(Degraded))
