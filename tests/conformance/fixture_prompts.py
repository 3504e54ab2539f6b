"""Fixtures that only answer: prompts and resources."""

import json
import re
from collections.abc import Awaitable, Callable

from outlive.frontends.mcp.http.methods import McpRequest
from outlive.protocols.mcp.messages import Code, McpError, object_param, text_param
from tests.conformance.fixture_rounds import prompt_round
from tests.conformance.fixture_tools import PNG, Object, embedded, image, text

Answer = Callable[[McpRequest], Awaitable[Object]]

_DATA = re.compile(r"test://template/([^/]+)/data")
_STATIC: dict[str, Object] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


async def list_resources(_request: McpRequest) -> Object:
    """Answer resources/list."""
    kinds = {uri: contents["mimeType"] for uri, contents in _STATIC.items()}
    return {"resources": [{"uri": uri, "name": uri, "mimeType": kind} for uri, kind in kinds.items()]}


async def list_templates(_request: McpRequest) -> Object:
    """Answer resources/templates/list."""
    template = {"uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json"}
    return {"resourceTemplates": [template]}


def reading(ours: Answer) -> Answer:
    """Return what answers resources/read for the fixtures' resources, and leaves the others to the
    product.
    """

    async def read(request: McpRequest) -> Object:
        uri = text_param(request.params, "uri")
        if uri in _STATIC:
            return {"contents": [{"uri": uri, **_STATIC[uri]}]}
        match = _DATA.fullmatch(uri)
        if match is None:
            return await ours(request)
        data = json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": data}]}

    return read


async def acknowledge(_request: McpRequest) -> Object:
    """Answer what only has to be taken: subscriptions, log levels."""
    return {}


async def complete(_request: McpRequest) -> Object:
    """Answer completion/complete."""
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


_PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(_request: McpRequest) -> Object:
    """Answer prompts/list."""
    prompts = [
        {
            "name": name,
            "description": f"A fixture: {name}.",
            "arguments": [{"name": argument, "required": True} for argument in arguments],
        }
        for name, arguments in _PROMPTS.items()
    ]
    return {"prompts": prompts}


async def get_prompt(request: McpRequest) -> Object:
    """Answer prompts/get."""
    name, arguments = text_param(request.params, "name"), object_param(request.params, "arguments")
    match name:
        case "test_simple_prompt":
            blocks = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            blocks = [text(words)]
        case "test_prompt_with_embedded_resource":
            uri = text_param(arguments, "resourceUri")
            blocks = [
                embedded(uri, "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            blocks = [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            return prompt_round(request)
        case _:
            raise McpError(Code.INVALID_PARAMS, "There is no such prompt.")
    return {"messages": [{"role": "user", "content": block} for block in blocks]}
