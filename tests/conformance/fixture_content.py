"""Fixtures that only answer: tools with every kind of content, resources, prompts, change triggers."""

import asyncio
import base64
import json
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

_STEP_S = 0.05  # the pause between notifications that the suite asks for
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
_WAV = base64.b64encode(
    b"RIFF" + (38).to_bytes(4, "little") + b"WAVEfmt " + bytes.fromhex("1000000001000100401f0000803e000002001000")
    + b"data" + (2).to_bytes(4, "little") + b"\0\0"
).decode()  # fmt: skip


def add_content(fixtures: MCPServer) -> None:
    """Add them to `fixtures`."""
    _add_tools(fixtures)
    _add_notifying_tools(fixtures)
    _add_resources(fixtures)
    _add_prompts(fixtures)


def _image() -> ImageContent:
    return ImageContent(type="image", data=_PNG, mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _add_tools(fixtures: MCPServer) -> None:
    @fixtures.tool(structured_output=False)
    def test_simple_text() -> str:
        """Answers with text."""
        return "This is a simple text response for testing."

    @fixtures.tool(structured_output=False)
    def greet(name: str) -> str:
        """Greets."""
        return f"Hello, {name}!"

    @fixtures.tool(structured_output=False)
    def test_image_content() -> list[ImageContent]:
        """Answers with an image."""
        return [_image()]

    @fixtures.tool(structured_output=False)
    def test_audio_content() -> list[AudioContent]:
        """Answers with a sound."""
        return [AudioContent(type="audio", data=_WAV, mime_type="audio/wav")]

    @fixtures.tool(structured_output=False)
    def test_embedded_resource() -> list[EmbeddedResource]:
        """Answers with a resource."""
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @fixtures.tool(structured_output=False)
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Answers with text, an image and a resource."""
        data = json.dumps({"test": "data", "value": 123})
        return [
            _text("Multiple content types test:"),
            _image(),
            _embedded("test://mixed-content-resource", data, "application/json"),
        ]

    @fixtures.tool(structured_output=False)
    def test_error_handling() -> str:
        """Always fails."""
        raise ToolError("This tool intentionally returns an error for testing")

    @fixtures.tool(structured_output=False)
    def test_x_mcp_header(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], note: str = ""
    ) -> str:
        """Takes an argument that travels in a header as well."""
        return f"{region} {note}"


def _add_notifying_tools(fixtures: MCPServer) -> None:
    @fixtures.tool(structured_output=False)
    async def test_tool_with_logging(ctx: Context) -> str:
        """Logs three times."""
        for number, message in enumerate(("started", "processing data", "completed")):
            await asyncio.sleep(_STEP_S if number else 0)
            whole = f"Tool {message}" if number == 1 else f"Tool execution {message}"
            await ctx.session.send_log_message("info", whole, related_request_id=ctx.request_id)
        return "Tool with logging executed successfully"

    @fixtures.tool(structured_output=False)
    async def test_logging_tool(ctx: Context) -> str:
        """Logs once, where the request asks for logs."""
        await ctx.session.send_log_message("info", "Logging evaluated", related_request_id=ctx.request_id)
        return "Logging evaluated"

    @fixtures.tool(structured_output=False)
    async def test_tool_with_progress(ctx: Context) -> str:
        """Reports progress three times."""
        for done in (0, 50, 100):
            await asyncio.sleep(_STEP_S if done else 0)
            await ctx.report_progress(done, 100)
        return "Tool with progress executed successfully"

    @fixtures.tool(structured_output=False)
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Tells subscribers that the tools have changed."""
        await ctx.notify_tools_changed()
        return "told"

    @fixtures.tool(structured_output=False)
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Tells subscribers that the prompts have changed."""
        await ctx.notify_prompts_changed()
        return "told"


def _add_resources(fixtures: MCPServer) -> None:
    @fixtures.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @fixtures.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(_PNG)

    @fixtures.resource("test://watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        return "Watched resource content"

    @fixtures.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:  # noqa: A002 -- the name in the template
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(fixtures: MCPServer) -> None:
    @fixtures.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        """Answers with one message."""
        return [UserMessage(_text("This is a simple prompt for testing."))]

    @fixtures.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """Repeats its arguments."""
        return [UserMessage(_text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]

    @fixtures.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 -- on the wire
        """Answers with a resource and text."""
        return [
            UserMessage(_embedded(resourceUri, "Embedded resource content for testing.")),
            UserMessage(_text("Please process the embedded resource above.")),
        ]

    @fixtures.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """Answers with an image and text."""
        return [UserMessage(_image()), UserMessage(_text("Please analyze the image above."))]
