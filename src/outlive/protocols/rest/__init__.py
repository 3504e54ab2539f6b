"""REST: bodies of requests and answers. No I/O; routes are in `frontends.rest`.

`requests` is what callers send, `answers` what they get, both as structs from which the OpenAPI document is
made (so their docstrings and descriptions are for users).
"""
