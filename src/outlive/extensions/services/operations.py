"""What can be asked of services."""

from outlive.extensions.services.requests import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
    StackList,
    UpRequest,
)
from outlive.operations.operation import reads, runs

_PROBLEMS = (404, 507)
OPERATIONS = (
    runs(
        "services_up",
        "Make a project's services run as they are declared.",
        UpRequest,
        StackList,
        route="POST /v1/services/up",
        problems=_PROBLEMS,
        example={
            "folder": "/srv/shop",
            "services": {
                "db": {"command": "postgres -D data", "ready": {"port": 5432}},
                "web": {"command": ["./serve"], "after": ["db"], "restart": "on-failure"},
            },
        },
    ),
    runs(
        "services_down",
        "Stop a project's services, those that wait for others first.",
        DownRequest,
        StackList,
        route="POST /v1/services/down",
        problems=_PROBLEMS,
        example={"folder": "/srv/shop"},
    ),
    runs(
        "services_restart",
        "End a project's services and start them again.",
        RestartRequest,
        StackList,
        route="POST /v1/services/restart",
        problems=_PROBLEMS,
        example={"folder": "/srv/shop", "names": ["web"]},
    ),
    reads(
        "services_list",
        "List services, at once or after news of them.",
        ServicesRequest,
        StackList,
        pace="open",
        route="GET /v1/services",
    ),
)
