"""The documentation page at /docs: the OpenAPI document as plain HTML, without any script or outside asset."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from outlive.frontends.rest.slugs import known_problems

_Schema = Mapping[str, Any]
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
"""


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


def _operation(path: str, method: str, operation: _Schema) -> Iterator[str]:
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


def _schema(name: str, schema: _Schema) -> Iterator[str]:
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
        yield f"<tr id='problem-{slug}'><td><code>{slug}</code></td><td>{status}</td><td>{escape(hint)}</td></tr>"
    yield "</table>"


def _table(head: _Row, rows: list[_Row]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><td><code>{escape(first)}</code></td><td>{second}</td><td>{escape(third)}</td></tr>"
        for first, second, third in rows
    )
    return f"<table><tr>{cells}</tr>{body}</table>"


def _kinds(answer: _Schema) -> str:
    shown = [_kind(one["schema"]) for one in answer.get("content", {}).values() if "schema" in one]
    return ", ".join(dict.fromkeys(shown))


def _kind(schema: _Schema) -> str:
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
