"""The OpenAPI document of a table of routes (`make_document`), and the page at /docs that shows it as plain
HTML (`render_page`).

The page needs no script and loads nothing from outside.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

import msgspec

from outlive.frontends.rest.problems import MEDIA_TYPE, known_problems
from outlive.frontends.rest.routes import WEBSOCKET, RestRoute
from outlive.operations.answers import Chunk, GapView
from outlive.operations.schemas import Schema, component_schemas, reference
from outlive.operations.table import all_operations
from outlive.protocols.rest.answers import Problem
from outlive.protocols.rest.requests import BODIES

_ABOUT = (
    "Runs commands that outlive their callers. A process belongs to its principal: it is found again after "
    "every disconnect and restart, with all of its output."
)
_TAGS = [
    {"name": "processes", "description": "Processes as a resource."},
    {"name": "terminals", "description": "Shells that stay, whose commands are captured one by one."},
    {"name": "services", "description": "What a project wants to run, kept running."},
    {"name": "machines", "description": "The machines that commands run on, and their files."},
    {"name": "documents", "description": "Paths and shapes of an older back end, kept for its callers."},
    {"name": "probes", "description": "For what watches the server."},
]
_PROBLEMS = {
    400: "The body is no JSON.",
    401: "A token is needed, or the one that was shown does not hold.",
    403: "The operator's rules do not allow the command, or the token's scope is too narrow for this.",
    404: "There is no such process.",
    409: "The process is not in a state in which this can be done.",
    410: "The log no longer holds this output.",
    413: "The body is too large.",
    415: "The body is not called JSON.",
    422: "A parameter makes no sense, or the command cannot be started.",
    429: "Too many requests of this principal: Retry-After says when to come back.",
    500: "Something went wrong; the answer has a reference to the server's log.",
    503: (
        "A limit is reached, or something does not answer: `hint` says what to do, for what was asked "
        "for may run."
    ),
    507: "The disk is full.",
}
_USUAL = frozenset({401, 403, 422, 429, 500, 503})  # every route may meet them
_OF_BODIES = frozenset({400, 413, 415})
_OF_NAMES = frozenset({404})  # what a path names may not be there


def _bodies() -> dict[type[msgspec.Struct], dict[str, Any]]:
    """Return what the document says of requests beside their schemas."""
    declared = all_operations().values()
    examples = {
        shape: {"examples": [one.example]}
        for one in declared
        if (shape := one.body or one.request) and one.example
    }
    return {**BODIES, **examples}


def make_document(routes: Iterable[RestRoute], version: str) -> dict[str, Any]:
    """Return the OpenAPI document (3.1.0) of routes."""
    shown = [route for route in routes if route.method != WEBSOCKET]
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route)
    # Pieces of a page are named by reference only, so msgspec does not find them by itself.
    answers = [shape for route in shown for shape in route.answers]
    shapes: list[type[msgspec.Struct]] = [*answers, *_bodies(), Problem, Chunk, GapView]
    return {
        "openapi": "3.1.0",
        "info": {"title": "outlive", "description": _ABOUT, "version": version},
        "paths": paths,
        "components": {"schemas": component_schemas(shapes, _bodies())},
        "tags": _TAGS,
    }


def _describe(route: RestRoute) -> Schema:
    name = route.name
    found: Schema = {
        "tags": [route.tag],
        "summary": name.replace("_", " ").title(),
        "description": route.help,
        # The name that generated clients call it by, for example processes_start.
        "operationId": f"{route.tag}_{name}",
        "responses": _answers(route),
    }
    if route.parameters:
        found["parameters"] = route.parameters
    body = route.shapes.get("body")
    if body is not None:
        found["requestBody"] = {"required": True, "content": _json(reference(body))}
    elif route.content is not None:
        found["requestBody"] = dict(route.content)
    return found


def _answers(route: RestRoute) -> Schema:
    shown = [reference(one) for one in route.answers]
    usual = _json(shown[0] if len(shown) == 1 else {"anyOf": shown}) if shown else {}
    found: Schema = {}
    for status in dict.fromkeys((route.status, *route.beside)):
        one = {"description": "Successful Response", **route.beside.get(status, {})}
        content = (usual if status == route.status else {}) | one.get("content", {})
        found[str(status)] = one | ({"content": content} if content else {})
    of_body = _OF_BODIES if "body" in route.shapes else frozenset()
    of_path = _OF_NAMES if "{" in route.path else frozenset()
    for status in sorted(_USUAL.union(of_body, of_path, route.problems)):
        content = {MEDIA_TYPE: {"schema": reference(Problem)}}
        found[str(status)] = {"description": _PROBLEMS[status], "content": content}
    return found


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


_Shown = Mapping[str, Any]
_Row = tuple[str, str, str]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h2 { margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h3 code { font-size: 1rem; }
.method { display: inline-block; min-width: 4rem; font-weight: 700; color: #075; }
.POST { color: #06c; } .DELETE { color: #c22; } .PATCH { color: #a50; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; border-bottom: 1px solid #eee; padding: .25rem .75rem .25rem 0; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: #f5f5f5; padding: .75rem; overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #ddd; } pre { background: #222; } th, td, h2 { border-color: #333; }
  a { color: #8bf; } .method { color: #5c9; } .POST { color: #6af; } .DELETE { color: #f77; } .PATCH { color: #fb6; }
}
"""  # noqa: E501 -- lines of a table, or of another language


def render_page(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{escape(info['title'])} REST</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        "<p>The same as a document for programs: <a href='/openapi.json'>/openapi.json</a></p>",
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2><p>{escape(tag['description'])}</p>")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(path, method.upper(), operation)
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts += _schema(name, schema)
    parts += _problems()
    return "".join(parts) + "</body></html>\n"


def _operation(path: str, method: str, operation: _Shown) -> Iterator[str]:
    yield f"<h3 id='{escape(operation['operationId'])}'><span class='method {method}'>{method}</span> "
    yield f"<code>{escape(path)}</code></h3><p>{escape(operation.get('description', ''))}</p>"
    rows = [
        (one["name"], f"{one['in']}, {_kind(one['schema'])}", one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    if rows:
        yield _table(("parameter", "kind", "what it does"), rows)
    body = operation.get("requestBody")
    if body is not None:
        kinds = [f"{media}: {_kind(one['schema'])}" for media, one in body["content"].items()]
        yield f"<p>Body: {', '.join(kinds)}</p>"
    answers = [
        (code, _kinds(one), one["description"]) for code, one in sorted(operation["responses"].items())
    ]
    yield _table(("status", "body", "when"), answers)


def _schema(name: str, schema: _Shown) -> Iterator[str]:
    required = set(schema.get("required", ()))
    yield f"<h3 id='schema-{escape(name)}'><code>{escape(name)}</code></h3>"
    yield f"<p>{escape(schema.get('description', ''))}</p>"
    rows = []
    for member, one in schema.get("properties", {}).items():
        default = f" Default: {json.dumps(one['default'])}." if "default" in one else ""
        kind = _kind(one) + ("" if member in required else ", optional")
        rows.append((member, kind, one.get("description", "") + default))
    if rows:
        yield _table(("member", "kind", "what it is"), rows)
    for example in schema.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example))}</pre>"


def _problems() -> Iterator[str]:
    yield "<h2>Problems</h2><p>The <code>slug</code> of every problem, its status, and what to do.</p><table>"
    for slug, status, hint in known_problems():
        yield (
            "<tr "
            f"id='problem-{slug}'><td><code>{slug}</code></td><td>{status}</td><td>{escape(hint)}</td></tr>"
        )
    yield "</table>"


def _table(head: _Row, rows: list[_Row]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><td><code>{escape(first)}</code></td><td>{second}</td><td>{escape(third)}</td></tr>"
        for first, second, third in rows
    )
    return f"<table><tr>{cells}</tr>{body}</table>"


def _kinds(answer: _Shown) -> str:
    shown = [_kind(one["schema"]) for one in answer.get("content", {}).values() if "schema" in one]
    return ", ".join(dict.fromkeys(shown))


def _kind(schema: _Shown) -> str:
    """Return a schema in some words, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#schema-{name}'>{name}</a>"
    if "enum" in schema:
        return " | ".join(f"<code>{escape(json.dumps(one))}</code>" for one in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("format") or schema.get("type", "anything")))
