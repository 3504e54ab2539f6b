"""Services: processes that a project wants to run, kept running (docs/services.md).

Of a server: `operations` are declared, `part` has them carried out by `services`; `stack_runner` does for one
project what `machine` decides (pure), by `service_processes` and `readiness`, and `service_files` keeps it.
Of the command line: `project_file` finds and reads what `services_file`, `procfile` and `env_file`
understand (pure); `up`, `down` and `restart` are verbs, `service_words` is what `ps` says.
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
            f"{_HERE}.up:restart",
            (
                ("outlive restart web", "a service, or a process of that name"),
                (
                    "outlive restart --secret API_KEY p7",
                    "values of secrets are stored nowhere: give them again",
                ),
            ),
        ),
        Verb(
            "up",
            "Run a project's services. With -d it returns when they are ready.",
            f"{_HERE}.up:up",
            (
                ("outlive up", "a project's services with their output side by side; Ctrl-C stops them"),
                ("outlive up -d --timeout 2m", "return when all are ready"),
                ("outlive up -d web", "one of them, and what it waits for"),
            ),
            is_local=True,
        ),
        Verb(
            "down",
            "Stop a project's services.",
            f"{_HERE}.up:down",
            (
                ("outlive down", "stop this project's services"),
                ("outlive down --kill web", "one, at once"),
            ),
            is_local=True,
        ),
    )
}
