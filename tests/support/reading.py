"""Reading a process's log through the JSON-RPC door: the one place that knows the shape of `read`."""

from tests.support.rpc import RpcClient


async def read_back(
    client: RpcClient, process_id: str, *, stream: str = "stdout", cursor: str = "0"
) -> bytes:
    """Return everything of one stream behind `cursor`, page by page (the stream must be valid UTF-8)."""
    pieces: list[bytes] = []
    while True:
        page = await client.request("read", process_id=process_id, cursor=cursor)
        pieces += [
            chunk["data"].encode() for chunk in page["chunks"] if chunk["type"] == stream and "data" in chunk
        ]
        if page["cursor"] == cursor or not page["chunks"]:
            return b"".join(pieces)
        cursor = page["cursor"]
