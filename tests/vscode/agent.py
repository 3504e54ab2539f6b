"""An agent at the server that a VS Code is connected to: `Agent`, by the terminal tools of REST."""

import time

from tests.rest.rest_caller import Json, RestCaller
from tests.support.server import OutliveServer

_PATIENCE_S = 25.0

# command, its output without the last newline, its exit code
_CAPTURED = (
    ("echo hello", "hello", 0),
    ("(exit 7)", "", 7),
    ("for n in 1 2\ndo\n  echo line $n\ndone", "line 1\nline 2", 0),
    ("seq 1 30000", "\n".join(map(str, range(1, 30001))), 0),
)


class Agent:
    """Opens terminals in VS Code and runs commands there."""

    def __init__(self, server: OutliveServer) -> None:
        self.rest = RestCaller(server.rest_url)

    def create(self, name: str | None = None, *, target: str = "vscode") -> str:
        """Open a terminal and return its id."""
        body = {"target": target, "terminal_name": name}
        created: str = self.rest.call("POST", "/v1/terminals", body, expect=201).json["terminal_id"]
        return created

    def is_served(self) -> bool:
        """Open a terminal if a VS Code is connected, and tell whether one is."""
        return self.rest.send("POST", "/v1/terminals", {"target": "vscode"}).status == 201

    def execute(self, terminal_id: str, command: str) -> Json:
        """Run a command in a terminal and wait for its end."""
        body = {"command": command, "wait_s": 25}
        return self.rest.call("POST", f"/v1/terminals/{terminal_id}/execute", body).json

    def wait_ready(self, terminal_id: str) -> None:
        """Wait until the shell is at its prompt: what was typed may be shown a moment before."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.rest.call("GET", f"/v1/terminals/{terminal_id}").json["state"] != "ready":
            assert time.monotonic() < deadline, "the shell does not come back to its prompt"
            time.sleep(0.05)

    def output(self, terminal_id: str, command: str) -> str:
        """Run a command at the prompt and return its output without the newline at its end."""
        self.wait_ready(terminal_id)
        return str(self.execute(terminal_id, command)["output"]).rstrip("\n")

    def open_ids(self) -> list[str]:
        """Return the server's open terminals."""
        return [one["terminal_id"] for one in self.rest.call("GET", "/v1/terminals").json["terminals"]]

    def captures_whole(self, terminal_id: str) -> None:
        """See that output and exit code of all kinds of commands come whole.

        The last one is `seq 1 30000`.
        """
        for command, output, code in _CAPTURED:
            done = self.execute(terminal_id, command)
            assert (done["output"].rstrip("\n"), done["exit_code"]) == (output, code)
