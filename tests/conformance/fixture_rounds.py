"""Fixtures of 2026-07-28 that need input: they answer `input_required` and are called again with the responses."""

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)


def add_rounds(fixtures: MCPServer) -> None:
    """Add them to `fixtures`."""
    _add_one_question(fixtures)
    _add_state(fixtures)
    _add_capabilities(fixtures)


def _form(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _need(questions: dict[str, InputRequest], state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=questions, request_state=state)


def _form_answer(ctx: Context, key: str) -> dict[str, Any] | None:
    """Return what the user filled in; None when that is not (or not rightly) among the responses."""
    answer = (ctx.input_responses or {}).get(key)
    return dict(answer.content or {}) if isinstance(answer, ElicitResult) else None


def _add_one_question(fixtures: MCPServer) -> None:
    @fixtures.tool(structured_output=False)
    def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
        """Asks for a name."""
        answer = _form_answer(ctx, "user_name")
        if answer is None:
            return _need({"user_name": _form("What is your name?", "name")})
        return f"Hello, {answer.get('name')}!"

    @fixtures.tool(structured_output=False)
    def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
        """Asks the client's model."""
        answer = (ctx.input_responses or {}).get("capital_question")
        if answer is None:
            return _need({"capital_question": _sample("What is the capital of France?")})
        return str(answer)

    @fixtures.tool(structured_output=False)
    def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
        """Asks for the client's roots."""
        answer = (ctx.input_responses or {}).get("client_roots")
        if answer is None:
            return _need({"client_roots": ListRootsRequest()})
        return str(answer)

    @fixtures.prompt()
    def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        """Asks for a context."""
        answer = _form_answer(ctx, "user_context")
        if answer is None:
            return _need({"user_context": _form("What context should be used?", "context")})
        return [UserMessage(TextContent(type="text", text=f"The context is {answer.get('context')}."))]

    @fixtures.tool(structured_output=False)
    async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
        """Reports progress on its stream and asks by its result, never by a request."""
        await ctx.report_progress(50, 100)
        answer = _form_answer(ctx, "value")
        return "done" if answer is not None else _need({"value": _form("Which value?", "value")})


def _add_state(fixtures: MCPServer) -> None:
    @fixtures.tool(structured_output=False)
    def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
        """Asks, and wants its state back."""
        return _confirmed(ctx)

    @fixtures.tool(structured_output=False)
    def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
        """Asks, and wants its state back untouched."""
        return _confirmed(ctx)

    @fixtures.tool(structured_output=False)
    def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
        """Asks three things at once."""
        questions: dict[str, InputRequest] = {
            "user_name": _form("What is your name?", "name"),
            "greeting": _sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        if questions.keys() - (ctx.input_responses or {}).keys() or ctx.request_state != "three":
            return _need(questions, "three")
        return "all three came"

    @fixtures.tool(structured_output=False)
    def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
        """Asks one thing after the other."""
        name, color = _form_answer(ctx, "step1"), _form_answer(ctx, "step2")
        if ctx.request_state == "second" and color is not None:
            return "both came"
        if ctx.request_state == "first" and name is not None:
            return _need({"step2": _form("Step 2: what is your favourite color?", "color")}, "second")
        return _need({"step1": _form("Step 1: what is your name?", "name")}, "first")


def _confirmed(ctx: Context) -> str | InputRequiredResult:
    if _form_answer(ctx, "confirm") is None or ctx.request_state != "asked":
        return _need({"confirm": _form("Please confirm", "ok", "boolean")}, "asked")
    return "state-ok"


def _add_capabilities(fixtures: MCPServer) -> None:
    @fixtures.tool(structured_output=False)
    def test_missing_capability(ctx: Context) -> str:
        """Refuses clients that cannot sample."""
        capabilities = ctx.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            raise MCPError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="This needs sampling.",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return "it can"

    @fixtures.tool(structured_output=False)
    def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
        """Asks only what the client can answer."""
        capabilities = ctx.client_capabilities
        questions: dict[str, InputRequest] = {}
        if capabilities is not None and capabilities.elicitation is not None:
            questions["elicit_input"] = _form("Which value?", "value")
        if capabilities is not None and capabilities.sampling is not None:
            questions["sample_input"] = _sample("Say something")
        if ctx.input_responses or not questions:
            return "nothing to ask"
        return _need(questions)
