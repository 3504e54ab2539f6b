"""Fixtures that ask the client while they run: sampling and elicitation of the revisions with sessions.

The product asks its clients nothing. So the way of a question is here, too: it leaves on the answer of the
client's request, and the response comes as a POST of its own (MCP revision 2025-11-25, "Transports").
"""

import asyncio
import json
import secrets
from typing import Any

from outlive.frontends.mcp.http.methods import McpRequest
from outlive.frontends.mcp.tools import Caller
from outlive.protocols.mcp.messages import Code, McpError, Message
from tests.conformance.fixture_tools import FixtureTool, Object, said, strings, text

_PATIENCE_S = 60.0
_CONTACT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
_DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
_WORDS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
_ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _WORDS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _WORDS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
    "required": [],
}


class Questions:
    """Requests of the server that wait for their response, by (principal, MCP session, our request id)."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str | None, str], asyncio.Future[Object]] = {}

    def tools(self) -> tuple[FixtureTool, ...]:
        """Return the tools that ask."""
        return (
            FixtureTool("test_sampling", self._sampling, strings("prompt")),
            FixtureTool("test_elicitation", self._elicitation, strings("message")),
            FixtureTool("test_elicitation_sep1034_defaults", self._defaults),
            FixtureTool("test_elicitation_sep1330_enums", self._enums),
        )

    def settle(self, response: Message, caller: Caller) -> None:
        """Give a client's response to the request that waits for it; another response is dropped."""
        key = (caller.principal, caller.connection_id, str(response.request_id))
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(response.outcome)

    async def _ask(self, request: McpRequest, method: str, params: Object) -> Object:
        if request.stream is None or request.caller.is_raw:
            raise McpError(Code.INVALID_REQUEST, f"There is no back-channel for {method}.")
        request_id = f"fixture-{secrets.token_hex(8)}"  # unlike any that clients count
        key = (request.caller.principal, request.caller.connection_id, request_id)
        self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            await request.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            async with asyncio.timeout(_PATIENCE_S):
                outcome = await self._waiting[key]
        finally:
            del self._waiting[key]
        if "error" in outcome:
            raise McpError(outcome["error"]["code"], outcome["error"]["message"])
        result: Object = outcome["result"]
        return result

    async def _sampling(self, request: McpRequest, arguments: Object) -> Object:
        messages = [{"role": "user", "content": text(arguments["prompt"])}]
        params = {"messages": messages, "maxTokens": 100}
        result = await self._ask(request, "sampling/createMessage", params)
        return said(f"LLM response: {result['content'].get('text', '')}")

    async def _elicitation(self, request: McpRequest, arguments: Object) -> Object:
        return said("User response: " + await self._elicit(request, arguments["message"], _CONTACT))

    async def _defaults(self, request: McpRequest, _arguments: Object) -> Object:
        answer = await self._elicit(request, "Please check the defaults", _DEFAULTS)
        return said("Elicitation completed: " + answer)

    async def _enums(self, request: McpRequest, _arguments: Object) -> Object:
        return said("Elicitation completed: " + await self._elicit(request, "Please choose", _ENUMS))

    async def _elicit(self, request: McpRequest, message: str, schema: Object) -> str:
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        result = await self._ask(request, "elicitation/create", params)
        return f"action={result['action']}, content={json.dumps(result.get('content') or {})}"
