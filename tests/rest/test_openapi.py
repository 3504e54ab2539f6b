"""The OpenAPI document and its page: complete, true, and without anything from outside."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from outlive.frontends.rest.problems import known_problems
from outlive.operations.requests import convert_request
from outlive.protocols.rest.answers import ProcessView, Started, SyncAnswer, TrackedProcesses
from outlive.protocols.rest.requests import BODIES
from tests.rest.rest_caller import RestCaller


@pytest.fixture
def document(rest: RestCaller) -> dict[str, Any]:
    return rest.call("GET", "/openapi.json").json


def _within(node: object, name: str) -> Iterator[Any]:
    """Yield every value of a member, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from _within(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _within(value, name)


def _schemas(node: object) -> Iterator[dict[str, Any]]:
    """Yield every schema, however deep; and objects that are none, which does no harm."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _schemas(value)
    elif isinstance(node, list):
        for value in node:
            yield from _schemas(value)


def test_every_operation_has_a_name_a_sentence_and_its_problems(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names)
    assert "processes_start" in names
    for operation in operations:
        assert operation["description"].endswith(".")
        for code, answer in operation["responses"].items():
            assert answer["description"].endswith(".") or code == "200"
            if int(code) >= 400:
                assert list(answer["content"]) == ["application/problem+json"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for reference in _within(document, "$ref"):
        assert reference.removeprefix("#/components/schemas/") in schemas


def test_schemas_stay_within_what_generators_of_clients_can_read(document: dict[str, Any]) -> None:
    """What breaks their code: a constant that is no string, an array of nothing, members beside a `oneOf`."""
    for schema in _schemas(document["components"]["schemas"]):
        assert isinstance(schema.get("const", ""), str)
        assert "const" not in schema or schema.get("type") == "string"
        assert schema.get("type") != "array" or "items" in schema
        assert "properties" not in schema or not schema.keys() & {"oneOf", "anyOf"}


def test_every_body_has_examples_that_are_accepted(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for shape in BODIES:
        assert schemas[shape.__name__]["examples"]
        for example in schemas[shape.__name__]["examples"]:
            convert_request(example, shape)


@pytest.mark.promise("R.document")
def test_answers_are_what_the_document_says(rest: RestCaller) -> None:
    """Unknown and missing members fail; schemathesis does the same for what callers may send."""
    process = rest.run("true", tags={"a": "b"})
    started = rest.call("POST", "/api/async/execute/background/", {"command": "true"}).json
    finished = rest.call("POST", "/api/sync/execute/", {"command": "true"}).json
    listed = rest.call("GET", "/api/async/processes/list/").json
    for answer, shape in (
        (process, ProcessView),
        (started, Started),
        (finished, SyncAnswer),
        (listed, TrackedProcesses),
    ):
        convert_request(answer, shape)


@pytest.mark.promise("R.document")
def test_the_page_describes_everything_and_loads_nothing(rest: RestCaller, document: dict[str, Any]) -> None:
    answer = rest.call("GET", "/docs")
    page = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert (
        re.findall(
            r"<(?:script|link|img|iframe|object|embed|base|form)\b|\bsrc=|@import|url\(|https?://", page
        )
        == []
    )
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page
    for name in document["components"]["schemas"]:
        assert f"id='schema-{name}'" in page
    for target in re.findall(r"href='#([^']+)'", page):
        assert f"id='{target}'" in page
    for slug, _, _ in known_problems():
        assert f"id='problem-{slug}'" in page


def test_a_problem_leads_to_its_description(rest: RestCaller) -> None:
    kind = rest.refused("GET", f"/v1/processes/{'0' * 26}", status=404)["type"]
    path, _, anchor = kind.partition("#")
    assert f"id='{anchor}'" in rest.call("GET", path).body.decode()
