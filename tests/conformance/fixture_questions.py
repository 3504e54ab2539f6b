"""Fixtures that ask the client while they run: sampling and elicitation of the handshake revisions."""

import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import SamplingMessage, TextContent

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


def add_questions(fixtures: MCPServer) -> None:
    """Add them to `fixtures`."""

    @fixtures.tool(structured_output=False)
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model."""
        messages = [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))]
        result = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {getattr(result.content, 'text', '')}"

    @fixtures.tool(structured_output=False)
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Asks the user for a name and an address."""
        return "User response: " + await _elicit(ctx, message, _CONTACT)

    @fixtures.tool(structured_output=False)
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every primitive type."""
        return "Elicitation completed: " + await _elicit(ctx, "Please check the defaults", _DEFAULTS)

    @fixtures.tool(structured_output=False)
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every kind of enumeration."""
        return "Elicitation completed: " + await _elicit(ctx, "Please choose", _ENUMS)


async def _elicit(ctx: Context, message: str, schema: dict[str, Any]) -> str:
    result = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={result.action}, content={json.dumps(result.content or {})}"
