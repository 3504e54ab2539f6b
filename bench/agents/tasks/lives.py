"""Tasks about processes that live: services, long jobs, several at once, what does not want to end."""

from bench.agents.steps import Do, Follow, Halt, Restart, Task, Together

_DEV_SERVER = """#!/usr/bin/env python3
import http.server, time
print("  VITE v5.2.0  starting", flush=True)
for n in range(30):
    print(f"  transforming ({n * 37}) src/components/Card{n}.tsx", flush=True)
    time.sleep(@0.5@)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>Shop front 0.9</title>")
    def log_message(self, *args):
        print("  GET", self.path, flush=True)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open("port", "w").write(str(server.server_port))
print(f"  ready: Local: http://localhost:{server.server_port}/", flush=True)
server.serve_forever()
"""

_JOB = """#!/bin/bash
for n in $(seq 1 12); do sleep @5@; echo "epoch $n/12 loss 0.$((90 - n * 5))"; done
echo "saved model to out/model-7f3a.bin, accuracy 0.931"
"""

_HANG = """#!/bin/bash
echo "deploy: uploading bundle"
echo "deploy: waiting for lock held by build-agent-7"
sleep 3600
"""

_LANE = """#!/bin/bash
sleep @$2@
echo "lane $1: checked, $3"
"""

_STUBBORN = """#!/bin/bash
trap 'echo not now' TERM INT HUP
(trap '' TERM INT HUP; while true; do sleep 0.2; done) &
echo "watcher ready (pid $$)"
while true; do sleep 0.2; done
"""

_DAEMON = """#!/bin/bash
case $1 in
start) setsid bash -c 'echo $$ > daemon.pid; exec sleep 3600' >/dev/null 2>&1 </dev/null &
       for _ in $(seq 100); do [ -s daemon.pid ] && break; sleep 0.02; done
       echo "daemon started, pid file daemon.pid" ;;
status) kill -0 "$(cat daemon.pid)" && echo "daemon is running: healthy" ;;
stop) kill "$(cat daemon.pid)" && echo "daemon stopped" ;;
esac
"""

TASKS = (
    Task(
        name="service",
        goal="Start the development server, look at the page's title, and stop it.",
        files={"dev-server.py": _DEV_SERVER},
        steps=(
            Do(
                command="./dev-server.py",
                kind="service",
                until="ready:",
                facts=(r"ready: Local: http://localhost:\d+",),
                name="dev",
                lasts=True,
                clue="",
            ),
            Do(command="curl -s localhost:$(cat port)", facts=(r"Shop front 0\.9",), clue=""),
            Halt(name="dev"),
        ),
    ),
    Task(
        name="minute",
        goal="Train the model: it takes about a minute.",
        files={"train.sh": _JOB},
        steps=(
            Do(
                command="./train.sh",
                kind="long",
                facts=(r"saved model to out/model-7f3a\.bin", r"accuracy 0\.931"),
                clue="saved|error",
            ),
        ),
    ),
    Task(
        name="hang",
        goal="The deployment seems to hang: find out where, and leave nothing running.",
        files={"deploy.sh": _HANG},
        steps=(
            Do(
                command="./deploy.sh",
                kind="suspect",
                facts=(r"waiting for lock held by build-agent-7",),
                clue="",
            ),
        ),
    ),
    Task(
        name="three",
        goal="Run the three checks at once.",
        files={"check.sh": _LANE.replace("@$2@", '$(python3 -c "print($2 * @1@)")')},
        steps=(
            Together(
                parts=(
                    Do(
                        command="./check.sh types 12 '0 errors'",
                        facts=(r"lane types: checked, 0 errors",),
                        clue="",
                    ),
                    Do(
                        command="./check.sh lint 6 '2 warnings'",
                        facts=(r"lane lint: checked, 2 warn",),
                        clue="",
                    ),
                    Do(
                        command="./check.sh units 9 '88 passed'",
                        facts=(r"lane units: checked, 88 pa",),
                        clue="",
                    ),
                )
            ),
        ),
    ),
    Task(
        name="restart",
        goal="Start the training, restart the host meanwhile, and report the result.",
        files={"train.sh": _JOB},
        steps=(
            Do(
                command="./train.sh",
                kind="service",
                until="epoch 1/12",
                facts=(r"epoch 1/12",),
                name="training",
                lasts=True,
                clue="",
            ),
            Restart(),
            Follow(name="training", facts=(r"accuracy 0\.931",), clue="accuracy"),
        ),
    ),
    Task(
        name="stubborn",
        goal="Start the watcher, then stop it: it ignores TERM.",
        files={"watch.sh": _STUBBORN},
        steps=(
            Do(
                command="./watch.sh",
                kind="service",
                until="watcher ready",
                facts=(r"watcher ready",),
                name="watcher",
                lasts=True,
                clue="",
            ),
            Halt(name="watcher"),
        ),
    ),
    Task(
        name="daemon",
        goal="Start the daemon, see that it is healthy, and stop it.",
        files={"daemon.sh": _DAEMON},
        steps=(
            Do(command="./daemon.sh start", facts=(r"daemon started",), clue=""),
            Do(command="./daemon.sh status", facts=(r"healthy",), clue=""),
            Do(command="./daemon.sh stop", facts=(r"daemon stopped",), clue=""),
        ),
    ),
)
