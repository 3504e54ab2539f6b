"""REST: bodies of requests and answers. No I/O.

`requests` is what callers send, `answers` describes what they get (both as models, which the OpenAPI document is made
from), `views` makes the answers themselves.
"""
