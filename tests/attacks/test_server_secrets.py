"""The server's own secrets reach no command, whichever way it is started; what a caller sends along does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.extensions.fleet.pairs import wait_until
from tests.support.fixtures import ServerFactory
from tests.support.server import outlive_command, run_outlive

pytestmark = pytest.mark.walls

_SECRETS = {
    "OUTLIVE_NOTIFY_WEBHOOK": "http://127.0.0.1:9/the-servers",
    "OUTLIVE_NOTIFY_COMMAND": "/bin/true the-servers",
    "OUTLIVE_NODE_TOKEN_FAR": "the-servers",
    "RAY_AUTH_TOKEN": "the-servers",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=the-servers",
}
_SENT = {"RAY_AUTH_TOKEN": "the-callers", "OUTLIVE_NOTIFY_WEBHOOK": "the-callers"}
_PRINTING = "env; echo all of it"


@pytest.mark.promise("A.secrets")
def test_no_door_gives_a_command_the_servers_secrets(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(**_SECRETS)
    asking = Requests(server, create_token(server, "admin"))
    found = {}
    starts: dict[str, dict[str, Any]] = {
        "plain": {},
        "terminal": {"pty": True},
        "sent": {"env": _SENT},
        "guarded": {"profile": "guarded", "env": _SENT},
    }
    for name, members in starts.items():
        found[name] = asking.output(asking.start(_PRINTING, **members)["process_id"])
    made = asking("POST", "/v1/terminals", body={})
    assert made.status == 201, made
    typed = {"command": _PRINTING, "wait_s": 20}
    found["shell"] = json.dumps(
        asking("POST", f"/v1/terminals/{made.body['terminal_id']}/execute", body=typed).body
    )
    found["relayed"] = _relayed(server.state_dir, tmp_path)
    (tmp_path / "outlive.processes.toml").write_text(
        f'[services.web]\ncommand = "{_PRINTING}; exec sleep 1000"\n'
    )
    started = run_outlive("up", "--detach", state_dir=server.state_dir, env=_SENT, cwd=tmp_path)
    assert started.returncode == 0, started

    def logged() -> str:
        return run_outlive("logs", "web", state_dir=server.state_dir, env=_SENT, cwd=tmp_path).stdout

    wait_until(lambda: "all of it" in logged())
    found["service"] = logged()
    for name, output in found.items():
        assert "all of it" in output, (name, output)
        assert "the-servers" not in output, name
        assert ("the-callers" in output) == (name in {"sent", "guarded", "relayed"}), name


def _relayed(state_dir: Path, folder: Path) -> str:
    """Return what a host's tool call answers whose relay has variables of its own."""
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "host", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run", "arguments": {"command": _PRINTING}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    relay = subprocess.Popen(
        [*outlive_command(), "mcp"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "OUTLIVE_STATE_DIR": str(state_dir), **_SENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdin.write(lines)
        relay.stdin.flush()
        answer = next(line for line in relay.stdout if json.loads(line).get("id") == 2)
        relay.stdin.close()
    return answer
