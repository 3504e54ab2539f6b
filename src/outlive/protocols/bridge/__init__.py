"""The terminal bridge's messages as bytes and as values; no I/O (promises S3.2, S3.3).

A message is a JSON object with `type`, `id` and `data`. Connections and terminals are handled in
`frontends.bridge`.
"""
