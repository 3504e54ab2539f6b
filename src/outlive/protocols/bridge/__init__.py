"""The terminal bridge's messages, JSON objects with `type`, `id` and `data`, as bytes and as values; no I/O (promises S3.2, S3.3)."""
