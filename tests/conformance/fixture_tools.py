"""What every fixture tool is made of, and the tools that only answer or report: one for each kind of
content.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from outlive.frontends.mcp.http.methods import McpRequest

_STEP_S = 0.05  # the pause between notifications that the suite asks for
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_WAV = base64.b64encode(
    b"RIFF" + (38).to_bytes(4, "little") + b"WAVEfmt " + bytes.fromhex("1000000001000100401f0000803e00"
        "0002001000")
    + b"data" + (2).to_bytes(4, "little") + b"\0\0"
).decode()  # fmt: skip
_LOG_LEVEL = "io.modelcontextprotocol/logLevel"  # in `_meta` of a request of 2026-07-28 that asks for logs

Object = Mapping[str, Any]
Handler = Callable[[McpRequest, Object], Awaitable[Object]]


@dataclass(frozen=True, slots=True)
class FixtureTool:
    """One tool of the fixtures; it takes whatever its schema says and gets its arguments unchecked."""

    name: str
    answer: Handler
    schema: Object = field(default_factory=lambda: {"type": "object"})

    def definition(self) -> Object:
        """Return it as tools/list shows it."""
        return {"name": self.name, "description": f"A fixture: {self.name}.", "inputSchema": self.schema}


def strings(*names: str) -> Object:
    """Return the schema of arguments that are texts and all needed."""
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": list(names)}


def text(words: str) -> Object:
    """Return a text block."""
    return {"type": "text", "text": words}


def image() -> Object:
    """Return an image."""
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> Object:
    """Return a resource inside of content."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


def said(words: str) -> Object:
    """Return the result of a tool that answers with text."""
    return {"content": [text(words)]}


def _constant(*content: Object, **members: object) -> Handler:
    async def answer(_request: McpRequest, _arguments: Object) -> Object:
        return {"content": list(content), **members}

    return answer


async def _greet(_request: McpRequest, arguments: Object) -> Object:
    return said(f"Hello, {arguments.get('name')}!")


async def _log(request: McpRequest, message: str) -> None:
    if not request.is_stateless or _LOG_LEVEL in request.message.meta:
        await request.notify("notifications/message", {"level": "info", "data": message})


async def _with_logging(request: McpRequest, _arguments: Object) -> Object:
    for number, message in enumerate(("started", "processing data", "completed")):
        await asyncio.sleep(_STEP_S if number else 0)
        await _log(request, f"Tool {message}" if number == 1 else f"Tool execution {message}")
    return said("Tool with logging executed successfully")


async def _logging(request: McpRequest, _arguments: Object) -> Object:
    await _log(request, "Logging evaluated")
    return said("Logging evaluated")


async def report(request: McpRequest, done: int) -> None:
    """Report progress, where the request asks for it."""
    token = request.message.meta.get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": done, "total": 100}
        await request.notify("notifications/progress", params)


async def _with_progress(request: McpRequest, _arguments: Object) -> Object:
    for done in (0, 50, 100):
        await asyncio.sleep(_STEP_S if done else 0)
        await report(request, done)
    return said("Tool with progress executed successfully")


_MIXED = json.dumps({"test": "data", "value": 123})
CONTENT_TOOLS = (
    FixtureTool("test_simple_text", _constant(text("This is a simple text response for testing."))),
    FixtureTool("greet", _greet, strings("name")),
    FixtureTool("test_image_content", _constant(image())),
    FixtureTool("test_audio_content", _constant({"type": "audio", "data": _WAV, "mimeType": "audio/wav"})),
    FixtureTool(
        "test_embedded_resource",
        _constant(embedded("test://embedded-resource", "This is an embedded resource content.")),
    ),
    FixtureTool(
        "test_multiple_content_types",
        _constant(
            text("Multiple content types test:"),
            image(),
            embedded("test://mixed-content-resource", _MIXED, "application/json"),
        ),
    ),
    FixtureTool(
        "test_error_handling",
        _constant(text("This tool intentionally returns an error for testing"), isError=True),
    ),
    FixtureTool("test_tool_with_logging", _with_logging),
    FixtureTool("test_logging_tool", _logging),
    FixtureTool("test_tool_with_progress", _with_progress),
    # The suite looks whether listing it loses anything of JSON Schema 2020-12.
    FixtureTool(
        "json_schema_2020_12_tool",
        _constant(),
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    ),
)
