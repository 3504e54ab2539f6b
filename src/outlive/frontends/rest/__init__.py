"""The REST frontend: /v1 for programs, the documented paths under /api (promise S4.7).

`door` is what the application builds; everything else is loaded at the first request. `service` has the table
of routes, whose handlers are in `processes`, `output`, `follow`, `terminals` (/v1) and `documents` (/api).
`routes` reads a request and answers it, `openapi` describes the table, and what goes wrong becomes a problem
in `problems`. The shapes are those of `protocols.rest` and `operations`; processes are the engine's.
"""

from outlive.frontends.rest.door import RestFrontend

__all__ = ["RestFrontend"]
