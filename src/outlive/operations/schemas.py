"""JSON Schemas of requests, made from their structs: for MCP tools, for OpenAPI and for reference pages.

Pure.

msgspec makes the schemas; here they get the form that their readers need.
"""

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

Schema = dict[str, Any]

_COMPONENTS = "#/components/schemas/{name}"
_NULL: Schema = {"type": "null"}
# What a model need not know to call a tool: a wrong value is refused with a sentence that says the bound.
_BOUNDS = frozenset(
    {
        "additionalProperties",
        "default",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "propertyNames",
    }
)


# A member that takes an object, too, may be shown to models as its simple form alone (`extra_json_schema`).
_SIMPLE = frozenset({"string", "integer", "number", "boolean"})
_NOT_SIMPLE = frozenset({"anyOf", "properties", "required", "additionalProperties"})


def arguments_schema(shape: type[msgspec.Struct], *, listed: Iterable[str] | None = None) -> Schema:
    """Return the `inputSchema` of a tool that takes a request; whole, because many hosts follow no `$ref`.

    With `listed` it shows these members only, in that order, without bounds, defaults and null: what a model
    need not know costs it tokens in each conversation (promise S4.13). The tool takes all others, too.
    """
    definitions: Mapping[str, Schema] = msgspec.json.schema(shape)["$defs"]
    writer = _ToolSchemas(definitions, is_terse=listed is not None)
    schema = writer.shown(definitions[shape.__name__])
    schema.pop("description", None)  # the tool has a better one
    members = schema.get("properties", {})
    names = member_names(shape) if listed is None else listed
    return schema | {"properties": {name: members[name] for name in names}}


def reference(shape: type[msgspec.Struct]) -> Schema:
    """Return the schema that names another one of the same OpenAPI document."""
    return {"$ref": _COMPONENTS.format(name=shape.__name__)}


def component_schemas(
    shapes: Iterable[type[msgspec.Struct]],
    beside: Mapping[type[msgspec.Struct], Schema] = MappingProxyType({}),
) -> dict[str, Schema]:
    """Return the schemas of requests and answers for an OpenAPI document, by name, with those that they refer
    to.

    `beside` says for some what stands beside its schema. Names and titles are those that generators of
    clients go by.
    """
    _, components = msgspec.json.schema_components(shapes, ref_template=_COMPONENTS)
    more = {shape.__name__: schema for shape, schema in beside.items()}
    return {name: _titled(schema) | more.get(name, {}) for name, schema in components.items()}


def _titled(schema: Schema) -> Schema:
    """Return a component in the form that generators of clients expect: titles of members, and types of
    words.
    """
    if "properties" not in schema:  # an enumeration
        return _typed(schema)
    members = {}
    for name, one in schema["properties"].items():
        refers = "$ref" in one or any("$ref" in other for other in one.get("anyOf", ()))
        title = {} if refers else {"title": name.replace("_", " ").title()}
        members[name] = title | _typed(one)
    needed = {"required": schema["required"]} if schema["required"] else {}
    return (
        {name: part for name, part in schema.items() if name != "required"} | needed | {"properties": members}
    )


def _typed(schema: Schema) -> Schema:
    """Return a member's schema; a default of nothing is what leaving it out means."""
    found = {"type": "string", **schema} if "enum" in schema else dict(schema)
    if len(found.get("enum", ())) == 1:
        found["const"] = found.pop("enum")[0]
    if found.get("default", {}) in (None, {}):
        found.pop("default", None)
    if "anyOf" in found:
        found["anyOf"] = [_typed(one) for one in found["anyOf"]]
    if "items" in found:
        found["items"] = _typed(found["items"])
    return found


def member_names(shape: type[msgspec.Struct]) -> list[str]:
    """Return the members' names as a reader wants them: what a request is about comes before options that
    others have, too.
    """
    classes = [one for one in shape.__mro__ if issubclass(one, msgspec.Struct)]
    return list(dict.fromkeys(name for one in classes for name in inspect.get_annotations(one)))


class _ToolSchemas:
    """Writes msgspec's schemas in the form that MCP hosts read."""

    def __init__(self, definitions: Mapping[str, Schema], *, is_terse: bool) -> None:
        self._definitions = definitions
        self._is_terse = is_terse
        self._dropped = _BOUNDS | {"title"} if is_terse else {"title"}

    def shown(self, schema: Schema) -> Schema:
        """Return one schema with those inside of it."""
        if "$ref" in schema:
            own = {name: part for name, part in schema.items() if name != "$ref"}
            return self.shown(self._definitions[schema["$ref"].rpartition("/")[2]] | own)
        if self._is_terse and schema.get("type") in _SIMPLE:
            schema = {name: part for name, part in schema.items() if name not in _NOT_SIMPLE}
        if "anyOf" in schema:
            return self._either(schema)
        found: Schema = {}
        for name, part in schema.items():
            if name == "properties":
                found[name] = {member: self.shown(one) for member, one in part.items()}
            elif isinstance(part, dict) and name not in self._dropped | {"default"}:
                found[name] = self.shown(part)
            elif name not in self._dropped and part not in ([], {}):
                found[name] = part
        return found

    def _either(self, schema: Schema) -> Schema:
        """Return a schema with alternatives.

        Null is none of them where a member may be left out: there it means just that. Elsewhere it is a value
        of its own, as for a variable of an environment. A list in `type` says the same and is refused by some
        hosts (Gemini, OpenAI).
        """
        own = {name: part for name, part in schema.items() if name not in {"anyOf", "default"}}
        others = [one for one in schema["anyOf"] if one != _NULL or "default" not in schema]
        if len(others) > 1:
            return {**own, "anyOf": [self.shown(one) for one in others]}
        return self.shown(others[0] | own)
