"""A caller of 2026-07-28 that writes its HTTP by hand: one self-contained POST for each request (blocks)."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.mcp_http.raw_caller import Answer, request

TASKS = "io.modelcontextprotocol/tasks"
_REVISION = "2026-07-28"
_NAMED_BY = {
    "tools/call": "name",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ModernCaller:
    """Declares `extensions` and the other `capabilities` with every request; `meta` and `headers` come on
    top.
    """

    url: str
    extensions: Mapping[str, Any] = field(default_factory=lambda: {TASKS: {}})
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    def send(self, method: str, **params: object) -> Answer:
        """Send one request with the headers that belong to it."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": _REVISION,
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": dict(self.extensions),
                **self.capabilities,
            },
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            **self.meta,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": _REVISION,
            "Mcp-Method": method,
        }
        if (key := _NAMED_BY.get(method)) in params:
            headers["Mcp-Name"] = str(params[key])
        body = json.dumps(message).encode()
        return request(self.url, "POST", body=body, headers={**headers, **self.headers})

    def result(self, method: str, **params: object) -> dict[str, Any]:
        """Send one request and return its result without `_meta`."""
        answer = self.send(method, **params)
        assert answer.status == 200, answer
        result: dict[str, Any] = answer.json["result"]
        result.pop("_meta", None)
        return result

    def error(self, method: str, **params: object) -> tuple[int, dict[str, Any]]:
        """Send one request that fails; return the HTTP status and the JSON-RPC error."""
        answer = self.send(method, **params)
        return answer.status, answer.json["error"]

    def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """Call a tool and return its result, or the task that it became."""
        return self.result("tools/call", name=name, arguments=arguments)


def ended(caller: ModernCaller, task_id: str) -> dict[str, Any]:
    """Poll a task until it has ended."""
    deadline = time.monotonic() + _PATIENCE_S
    while (task := caller.result("tasks/get", taskId=task_id))["status"] == "working":
        assert time.monotonic() < deadline, task
        time.sleep(0.05)
    return task
