"""Fixtures of 2026-07-28 that need input: they answer `input_required` and are called again with the
responses.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from typing import Any

from outlive.frontends.mcp.http.methods import McpRequest
from outlive.protocols.mcp.messages import Code, McpError, object_param
from tests.conformance.fixture_tools import FixtureTool, Handler, Object, report, said, text

_KEY = os.urandom(32)


def form(message: str, name: str, kind: str = "string") -> Object:
    """Return a question to the user."""
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _sample(words: str) -> Object:
    params = {"messages": [{"role": "user", "content": text(words)}], "maxTokens": 100}
    return {"method": "sampling/createMessage", "params": params}


_ROOTS: Object = {"method": "roots/list"}


def need(questions: Object, state: str | None = None) -> Object:
    """Return the result that asks; `state` comes back with the responses, or is refused."""
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": questions}
    if state is not None:
        seal = hmac.digest(_KEY, state.encode(), hashlib.sha256)
        result["requestState"] = base64.b64encode(seal).decode() + state
    return result


def _state(request: McpRequest) -> str | None:
    """Return the state that comes back with a request."""
    sealed = request.params.get("requestState")
    if sealed is None:
        return None
    seal, state = sealed[:44], sealed[44:]
    if not hmac.compare_digest(
        seal, base64.b64encode(hmac.digest(_KEY, state.encode(), hashlib.sha256)).decode()
    ):
        raise McpError(Code.INVALID_PARAMS, "The requestState was not made here.")
    return str(state)


def responses(request: McpRequest) -> Object:
    """Return the responses that come with a request."""
    return object_param(request.params, "inputResponses")


def form_answer(request: McpRequest, key: str) -> Object | None:
    """Return what the user filled in; None when that is not (or not rightly) among the responses."""
    answer = responses(request).get(key)
    if not isinstance(answer, dict) or answer.get("action") not in {"accept", "decline", "cancel"}:
        return None
    content = answer.get("content")
    return content if isinstance(content, dict) else {}


def prompt_round(request: McpRequest) -> Object:
    """Answer the prompt that asks for a context."""
    answer = form_answer(request, "user_context")
    if answer is None:
        return need({"user_context": form("What context should be used?", "context")})
    content = text(f"The context is {answer.get('context')}.")
    return {"messages": [{"role": "user", "content": content}]}


def _handler(answer: Callable[[McpRequest], Object]) -> Handler:
    async def handle(request: McpRequest, _arguments: Object) -> Object:
        return answer(request)

    return handle


def _elicitation(request: McpRequest) -> Object:
    answer = form_answer(request, "user_name")
    if answer is None:
        return need({"user_name": form("What is your name?", "name")})
    return said(f"Hello, {answer.get('name')}!")


def _once(key: str, question: Object) -> Callable[[McpRequest], Object]:
    def answer(request: McpRequest) -> Object:
        found = responses(request).get(key)
        return need({key: question}) if found is None else said(str(found))

    return answer


async def _streaming(request: McpRequest, _arguments: Object) -> Object:
    """Report progress on its stream and ask by its result, never by a request."""
    await report(request, 50)
    if form_answer(request, "value") is not None:
        return said("done")
    return need({"value": form("Which value?", "value")})


def _confirmed(request: McpRequest) -> Object:
    state = _state(request)
    if form_answer(request, "confirm") is None or state != "asked":
        return need({"confirm": form("Please confirm", "ok", "boolean")}, "asked")
    return said("state-ok")


def _multiple(request: McpRequest) -> Object:
    questions = {
        "user_name": form("What is your name?", "name"),
        "greeting": _sample("Generate a greeting"),
        "client_roots": _ROOTS,
    }
    if _state(request) != "three" or questions.keys() - responses(request).keys():
        return need(questions, "three")
    return said("all three came")


def _multi_round(request: McpRequest) -> Object:
    state, name, color = _state(request), form_answer(request, "step1"), form_answer(request, "step2")
    if state == "second" and color is not None:
        return said("both came")
    if state == "first" and name is not None:
        return need({"step2": form("Step 2: what is your favourite color?", "color")}, "second")
    return need({"step1": form("Step 1: what is your name?", "name")}, "first")


def _missing_capability(request: McpRequest) -> Object:
    if "sampling" not in request.declared.capabilities:
        data: Object = {"requiredCapabilities": {"sampling": {}}}
        raise McpError(Code.MISSING_CAPABILITY, "This needs sampling.", data)
    return said("it can")


def _capabilities(request: McpRequest) -> Object:
    """Ask only what the client can answer."""
    known = {"elicit_input": form("Which value?", "value"), "sample_input": _sample("Say something")}
    capabilities = {"elicit_input": "elicitation", "sample_input": "sampling"}
    questions = {
        key: question for key, question in known.items() if capabilities[key] in request.declared.capabilities
    }
    return said("nothing to ask") if responses(request) or not questions else need(questions)


_PREFIX = "test_input_required_result"
ROUND_TOOLS = (
    FixtureTool(f"{_PREFIX}_elicitation", _handler(_elicitation)),
    FixtureTool(
        f"{_PREFIX}_sampling",
        _handler(_once("capital_question", _sample("What is the capital of France?"))),
    ),
    FixtureTool(f"{_PREFIX}_list_roots", _handler(_once("client_roots", _ROOTS))),
    FixtureTool("test_streaming_elicitation", _streaming),
    FixtureTool(f"{_PREFIX}_request_state", _handler(_confirmed)),
    FixtureTool(f"{_PREFIX}_tampered_state", _handler(_confirmed)),
    FixtureTool(f"{_PREFIX}_multiple_inputs", _handler(_multiple)),
    FixtureTool(f"{_PREFIX}_multi_round", _handler(_multi_round)),
    FixtureTool("test_missing_capability", _handler(_missing_capability)),
    FixtureTool(f"{_PREFIX}_capabilities", _handler(_capabilities)),
)
