"""Addresses of servers as people write them: `websocket_url`, `web_url`. Pure."""

from urllib.parse import urlsplit

JSONRPC_PATH = "/ws/mcp"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_WEB = {"ws": "http", "wss": "https"}


def websocket_url(text: str) -> str:
    """Return where a server's JSON-RPC is, from "https://build.example:8003", "wss://…/ws/mcp" or "build.example:8003".

    Raises:
        ValueError: It is no such address, or has a user or a password in it.
    """
    word = text.strip()
    if "://" not in word:
        word = f"http://{word}"
    parts = urlsplit(word)
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname:
        raise ValueError("an address like https://build.example:8003 or ws://127.0.0.1:8003/ws/mcp is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address holds no user and no password: a token belongs into a file")
    if parts.port == 0 or parts.query or parts.fragment:
        raise ValueError("an address ends with its port or its path")
    path = parts.path if parts.path not in ("", "/") else JSONRPC_PATH
    return f"{scheme}://{parts.netloc}{path}"


def web_url(text: str) -> str:
    """Return the server's root for HTTP requests, from what `websocket_url` takes.

    Raises:
        ValueError: As there.
    """
    parts = urlsplit(websocket_url(text))
    return f"{_WEB[parts.scheme]}://{parts.netloc}{parts.path.removesuffix(JSONRPC_PATH)}"
