"""Services: processes that a project wants to run, kept running (docs/services.md).

Of a server: `operations` are declared, `part` has them carried out by `services`; `stack_runner` does for one
project what `machine` decides (pure), by `service_processes` and `readiness`, and `service_files` keeps it.
Of the command line: `project_file` finds and reads what `services_file`, `procfile` and `env_file`
understand (pure); `up`, `down` and `restart` are verbs.
"""

from outlive.cli.program import Verb

_HERE = "outlive.extensions.services"
VERBS = {
    "Every day": (
        Verb(
            "restart",
            (
                "Run services or processes anew, ending those that live. Each in its folder and environment, "
                "under its name."
            ),
            f"{_HERE}.restart:restart",
        ),
        Verb(
            "up",
            "Run a project's services. With -d it returns when they are ready.",
            f"{_HERE}.up:up",
        ),
        Verb("down", "Stop a project's services.", f"{_HERE}.down:down"),
    )
}
