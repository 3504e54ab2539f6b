"""What others wrote is decoded by `core.documents`, whose bounds no reader can forget (decision 224)."""

import ast

from tests.house.sources import ROOT, python_sources

_PACKAGE = ROOT / "src" / "outlive"
_LIBRARIES = {"json", "orjson", "msgspec", "tomllib", "yaml", "pickle", "marshal", "plistlib"}
_DECODERS = {
    "load",
    "loads",
    "decode",
    "Decoder",
    "JSONDecoder",
    "safe_load",
    "compose",
    "parse",
}
# Decoders of C, which make typed values and stop at a depth of their own; the doors bound the bytes.
_TYPED = {
    "operations/requests.py": "parameters of a message; a RecursionError is a refusal",
    "extensions/bridge/messages.py": "typed answers; a RecursionError is a refusal",
    "protocols/jsonrpc/requests.py": "the members stay undecoded; a RecursionError is a refusal",
    "protocols/terminal_messages.py": "typed messages; a RecursionError is a refusal",
}
_OTHERS = {
    "core/documents.py": "the decoder",
    "extensions/hosts/json_text.py": "reads at positions of a text whose bounds were checked",
    "extensions/hosts/yaml_text.py": "checks the bounds by the parser's events",
    "engine/reports.py": "what our own program has printed, typed",
}


def _is_bare(call: ast.Call) -> bool:
    """Tell whether a call decodes text by a library, and none whose bounds `checked_json` has checked."""
    found, names = call.func, []
    while isinstance(found, ast.Attribute):
        names.append(found.attr)
        found = found.value
    if not isinstance(found, ast.Name) or found.id not in _LIBRARIES or not _DECODERS & {*names}:
        return False
    checked = call.args[0] if call.args else None
    return not (
        isinstance(checked, ast.Call)
        and isinstance(checked.func, ast.Name)
        and checked.func.id == "checked_json"
    )


def test_no_module_decodes_by_itself() -> None:
    found = {
        source.path.relative_to(_PACKAGE).as_posix()
        for source in python_sources("src/outlive")
        for node in source.nodes
        if isinstance(node, ast.Call) and _is_bare(node)
    }
    # Decoders that are made once, and given checked text where they are called.
    assert found - {"extensions/fleet/joined/messages.py", "extensions/ray/leases.py"} == {
        *_TYPED,
        *_OTHERS,
    }


def test_no_module_takes_a_decoder_out_of_its_library() -> None:
    taken = {
        source.name
        for source in python_sources("src/outlive")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.module in _LIBRARIES
        if _DECODERS & {one.name for one in node.names}
    }
    assert not taken
