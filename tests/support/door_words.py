"""What no door must speak of: `FOREIGN`, patterns by door for its hints, and `DECODERS` for each message."""

import re
from collections.abc import Mapping

from outlive.core.hints import Door

# Words of msgspec, orjson and Python for what a caller sent.
DECODERS = re.compile(
    r"(?i)\b(?:expected|got) `?(?:str|int|float|bool|array|object|null)\b|invalid enum|required field"
    r"|unknown field|malformed|truncated|surrogates not allowed|64-bit range|bytes-like"
)
# What only a JSON-RPC caller can follow.
_JSON_RPC = (
    r"the method's|\bframe|jsonrpc|\b[Aa]ttach again|\bUse (?:list|execute)\b|with execute\b|(?:of|in) "
    r"this connection"
    r"|\bpass process_id|\bthe last message\b|for our client"
)
_TOOLS = r"\bterminal_[a-z]+|\bcommand_[a-z]+|\blist_processes\b|input schema|tools/"
_HTTP = r"\b(?:GET|POST|PUT|DELETE) /|/openapi\.json|\bAuthorization: |\bX-API-Key\b"
# A header is also how a token comes to the MCP door.
FOREIGN: Mapping[Door, str] = {
    "cli": (
        rf'{_JSON_RPC}|{_TOOLS}|{_HTTP}|"\w+": '
        r"|\bconcurrent\b|\bprocess_id\b|\bJSON\b|(?<!--)\bcwd\b|in env\b"
    ),
    "rest": rf"{_JSON_RPC}|{_TOOLS}|\bOUTLIVE_TOKEN\b",
    "mcp": r"the method's|\bframe|\b[Aa]ttach again|\bexecute,|with execute\b|\b(?:GET|POST|PUT|DELETE) "
    r"/|/openapi\.json|"
    r"this connection|\bpass process_id|\bthe last message\b|\"method\": ?\"execute\"",
}
