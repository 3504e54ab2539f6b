"""The REST door: /v1 for programs, the documented paths under /api (promise S4.7).

`door` is what the application builds; everything else is loaded at the first request. `service` puts the routes
together: `processes`, `verbs`, `output`, `follow` under /v1, `documents` under /api, `reference` at /docs. What goes
wrong becomes a problem in `problems`. Bodies are `protocols.rest`; processes are the engine's.
"""

from outlive.frontends.rest.door import RestFrontend

__all__ = ["RestFrontend"]
