"""Command lines that people type because other programs have taught them to, each with what is meant.

From the manuals of docker, pueue, tmux, pm2, nohup, screen, systemctl, kubectl, and foreman with its kin;
`outlive` stands in the place of the program's name.

A line is met where outlive does what was meant, or says exactly what does. `test_guessed_words.py` runs all
of them.
"""

from typing import Literal, NamedTuple

# What has to be there before: `web` lives, says "ready", and takes input; `job` has ended; `none`: nothing of
# these matters.
Before = Literal["web", "job", "none"]


class Guess(NamedTuple):
    """One line.

    Attributes:
        program: Whose habit it is.
        line: The words behind the program's name.
        meant: What the person wants, in a few words.
        shows: A pattern that the output then matches: what was done, or the sentence that names what does it.
        code: The exit code; None for what goes on until it is interrupted. 2 and 125 stand where something is
            said.
        before: What has to be there.
    """

    program: str
    line: str
    meant: str
    shows: str
    code: int | None = 0
    before: Before = "web"


_ID = r"^[0-9a-z]{26}$"
_STOPS = r"web \(\w{6}\) is being (?:stopped|killed): "
_AGAIN = r"web \(\w{6}\) runs again: "
_ROW = r"web +(?:running|asks for input)"
_NOT_SAVED = r"Nothing has to be saved.*service install"
_NO_IMAGES = r"outlive makes no images.*--backend docker"
_KEEPS_COMMAND = r"outlive restart (?:ID|web).*--replace"
_NO_WINDOWS = r"draws no windows.*outlive attach"
_NO_FILES = r"Here is no .*outlive.* and no Procfile"
_INSIDE = r"'web' is a process, and nothing can be run inside.*outlive send web TEXT"
_RUN_IT = r"To run a program: `outlive run -- "
_LIVES = r"still runs.*\n.*End it first"

_DOCKER = (
    Guess(
        "docker", "run -d --name api sleep 300", "start in the background under a name", _ID, before="none"
    ),
    Guess("docker", "run --rm echo hi", "run once, keep nothing", "^hi$", before="none"),
    Guess("docker", "run -it --rm echo hi", "run in a terminal", "hi", before="none"),
    Guess(
        "docker", "run -e GREETING=hello sh -c 'echo $GREETING'", "set a variable", "^hello$", before="none"
    ),
    Guess("docker", "run -w /tmp pwd", "run in a folder", "^/tmp$", before="none"),
    Guess("docker", "run -d -i --name in cat", "keep its input open", _ID, before="none"),
    Guess("docker", "run -p 8080:80 nginx", "publish a port", "this machine's own ports", 2, "none"),
    Guess("docker", "run -v /data:/data sh", "mount a folder", "this machine's files", 2, "none"),
    Guess("docker", "run --restart always sleep 300", "restart it for ever", "outlive restart ID", 2, "none"),
    Guess("docker", "run --env-file .env sh", "variables of a file", r"your whole environment", 2, "none"),
    Guess("docker", "run -u nobody id", "as another user", "sudo -u USER", 2, "none"),
    Guess("docker", "run -m 2g sleep 1", "bound its memory", "--limit memory=2G", 2, "none"),
    Guess("docker", "ps", "list what runs", _ROW),
    Guess("docker", "ps -a", "list what has ended, too", "job +finished", before="job"),
    Guess("docker", "ps -q", "ids alone", _ID),
    Guess("docker", "ps -aq", "all ids", _ID),
    Guess("docker", "ps -l", "the newest", "-n 1", 2),
    Guess("docker", "ps --filter name=web", "those of a name", "--tag NAME=VALUE", 2),
    Guess("docker", "ps --format json", "for a program", "--json", 2),
    Guess("docker", "container ls", "list", _ROW),
    Guess("docker", "container stop web", "stop it", _STOPS),
    Guess("docker", "logs web", "its output", "^ready$"),
    Guess("docker", "logs -f web", "follow its output", "^ready$", None),
    Guess("docker", "logs --tail 10 web", "the last lines", "^ready$"),
    Guess("docker", "logs -n 5 web", "the last lines", "^ready$"),
    Guess("docker", "logs --since 10m web", "of the last minutes", "^ready$"),
    Guess("docker", "logs --timestamps web", "with times", r"^\d{4}-\d\d-\d\dT[\d:.]+Z ready$"),
    Guess("docker", "stop web", "stop it", _STOPS),
    Guess("docker", "stop -t 5 web", "with five seconds' grace", _STOPS),
    Guess("docker", "kill web", "kill it", _STOPS),
    Guess("docker", "kill -s CONT web", "send a signal", r"web \(\w{6}\) got CONT"),
    Guess("docker", "kill --signal=CONT web", "send a signal", r"web \(\w{6}\) got CONT"),
    Guess("docker", "restart web", "start it anew", _AGAIN),
    Guess("docker", "restart -t 5 web", "start it anew", _AGAIN),
    Guess("docker", "start job", "start what has ended again", r"job \(\w{6}\) runs again", before="job"),
    Guess("docker", "rm job", "forget it", r"job \(\w{6}\) is removed", before="job"),
    Guess("docker", "rm web", "forget it, though it runs", _LIVES, 1),
    Guess("docker", "rm -f web", "end and forget it", r"web \(\w{6}\) is removed"),
    Guess("docker", "pause web", "stop it for a while", r"web \(\w{6}\) is paused"),
    Guess("docker", "unpause web", "let it go on", r"web \(\w{6}\) goes on"),
    Guess("docker", "attach web", "bring it to the foreground", "ready", None),
    Guess("docker", "exec -it web sh", "a shell inside", _INSIDE, 1),
    Guess("docker", "exec web ls /", "a program inside", _INSIDE, 1),
    Guess("docker", "top web", "its processes", "web|running", None),
    Guess("docker", "stats --no-stream", "what all use", "running|asks for"),
    Guess("docker", "inspect web", "everything of it", r"^command +"),
    Guess("docker", "wait job", "wait for its end", "finished", before="job"),
    Guess("docker", "port web", "its ports", "outlive stats (?:ID|web)", 2),
    Guess("docker", "cp web:/x .", "copy a file", r"cp\(1\)", 2),
    Guess("docker", "rename web api", "another name", "is called api"),
    Guess("docker", "images", "list images", _NO_IMAGES, 2),
    Guess("docker", "pull alpine", "get an image", _NO_IMAGES, 2),
    Guess("docker", "build .", "make an image", _NO_IMAGES, 2),
    Guess("docker", "volume ls", "list volumes", _NO_IMAGES, 2),
    Guess("docker", "compose up -d", "start services", _NO_FILES, 1),
    Guess("docker", "system df", "what takes the disk", "outlive df", 1),
    Guess("docker", "system prune", "free space", "outlive prune --dry-run", 2),
    Guess("docker", "info", "how it is set up", "keeper|socket|kernel", None),
    Guess("docker", "version", "the version", r"^outlive \d"),
    Guess("docker", "diff web", "what has changed", "outlive inspect (?:ID|web)", 2),
    Guess("docker", "search ready", "find", "^web: ready$"),
)
_PUEUE = (
    Guess("pueue", "add sleep 1", "enqueue a command", _ID, before="none"),
    Guess("pueue", "add -- sleep 1", "enqueue a command", _ID, before="none"),
    Guess("pueue", "add 'echo a && echo b'", "enqueue a line", _ID, before="none"),
    Guess("pueue", "add -g build sleep 1", "in a group", _ID, before="none"),
    Guess("pueue", "add -w /tmp pwd", "in a folder", _ID, before="none"),
    Guess("pueue", "add -l fetch sleep 1", "under a name", _ID, before="none"),
    Guess("pueue", "add --delay 1h sleep 1", "later", "outlive wait ID && outlive run", 2, "none"),
    Guess("pueue", "status", "list", _ROW),
    Guess("pueue", "status --json", "list for a program", '"name": "web"'),
    Guess("pueue", "log", "the last output", "ready"),
    Guess("pueue", "log web", "its output", "^ready$"),
    Guess("pueue", "log -n 5 web", "the last lines", "^ready$"),
    Guess("pueue", "follow web", "follow its output", "^ready$", None),
    Guess("pueue", "pause -a", "pause all", r"web \(\w{6}\) is paused"),
    Guess("pueue", "kill -a", "kill all", _STOPS),
    Guess("pueue", "clean", "forget what has ended", "outlive prune --dry-run", 2),
    Guess("pueue", "remove job", "forget it", r"job \(\w{6}\) is removed", before="job"),
    Guess("pueue", "restart job", "again", r"job \(\w{6}\) runs again", before="job"),
    Guess("pueue", "send web yes", "write to its input", "^$"),
    Guess("pueue", "edit web", "change it", _KEEPS_COMMAND, 2),
    Guess("pueue", "stash web", "keep it back", "--group-limit", 2),
    Guess("pueue", "enqueue web", "let it go", "--group-limit", 2),
    Guess("pueue", "group add build", "make a group", "--group-limit", 2),
    Guess("pueue", "parallel 3", "so many at once", "--group-limit", 2),
    Guess("pueue", "switch 1 2", "another order", "outlive ps", 2),
    Guess("pueue", "wait job", "wait for its end", "finished", before="job"),
    Guess("pueue", "reset", "begin anew", "outlive prune --dry-run", 2),
    Guess("pueue", "shutdown", "end the daemon", "nothing that runs ends with it", 2),
    Guess("pueue", "completions bash", "for the shell", "complete", before="none"),
    Guess("pueue", "format-status", "another form", "--json", 2),
    Guess("pueue", "help add", "help", "Usage: outlive run", before="none"),
)
_TMUX = (
    Guess("tmux", "new -d -s build sleep 300", "a session in the background", _ID, before="none"),
    Guess("tmux", "new-session -d -s other sleep 300", "a session in the background", _ID, before="none"),
    Guess("tmux", "new -s here echo hi", "a session here", "^hi$", before="none"),
    Guess("tmux", "ls", "list", _ROW),
    Guess("tmux", "list-sessions", "list", _ROW),
    Guess("tmux", "attach -t web", "to the foreground", "ready", None),
    Guess("tmux", "a -t web", "to the foreground", "ready", None),
    Guess("tmux", "attach", "the last one", "ready", None),
    Guess("tmux", "attach-session -t web:0", "to the foreground", "ready", None),
    Guess("tmux", "detach", "leave it running", "ctrl-p ctrl-q", 2),
    Guess("tmux", "kill-session -t web", "end it", _STOPS),
    Guess("tmux", "kill-server", "end everything", "nothing that runs ends with it", 2),
    Guess("tmux", "has-session -t web", "is it there", "^name +web"),
    Guess("tmux", "send-keys -t web hello Enter", "type", "^$"),
    Guess("tmux", "send-keys -t web C-c", "interrupt it", "^$"),
    Guess("tmux", "capture-pane -p -t web", "what it shows", "^ready$"),
    Guess("tmux", "split-window", "two at once", _NO_WINDOWS, 2),
    Guess("tmux", "new-window", "another one", _NO_WINDOWS, 2),
    Guess("tmux", "rename-session -t web api", "another name", "is called api"),
    Guess("tmux", "list-windows", "list", _NO_WINDOWS, 2),
    Guess("tmux", "respawn-pane -t web", "again", "outlive restart ID", 2),
    Guess("tmux", "source-file ~/.tmux.conf", "settings", "outlive config show", 2),
)
_PM2 = (
    Guess("pm2", "start 'sleep 300'", "start a line", _ID, before="none"),
    Guess("pm2", "start sleep --name nap -- 300", "start under a name", _ID, before="none"),
    Guess("pm2", "list", "list", _ROW),
    Guess("pm2", "jlist", "list for a program", '"name": "web"'),
    Guess("pm2", "logs", "the last output", "ready"),
    Guess("pm2", "logs web --lines 20", "the last lines", "^ready$"),
    Guess("pm2", "monit", "watch", "running|asks for", None),
    Guess("pm2", "describe web", "everything of it", r"^command +"),
    Guess("pm2", "show web", "everything of it", r"^command +"),
    Guess("pm2", "info web", "everything of it", r"^command +"),
    Guess("pm2", "stop all", "stop everything", "--all stands for everything", 1),
    Guess("pm2", "delete web", "end and forget it", _LIVES, 1),
    Guess("pm2", "delete job", "forget it", r"job \(\w{6}\) is removed", before="job"),
    Guess("pm2", "restart web", "again", _AGAIN),
    Guess("pm2", "restart all", "all again", "--all|outlive ps", 1),
    Guess("pm2", "reload web", "again without a gap", "outlive restart web", 2),
    Guess("pm2", "save", "keep the list", _NOT_SAVED, 2),
    Guess("pm2", "resurrect", "bring it back", _NOT_SAVED, 2),
    Guess("pm2", "startup", "at every boot", _NOT_SAVED, 2),
    Guess("pm2", "flush", "empty the logs", "outlive prune --dry-run", 2),
    Guess("pm2", "sendSignal CONT web", "send a signal", r"web \(\w{6}\) got CONT"),
    Guess("pm2", "scale web 4", "four of it", "outlive rerun ID", 2),
    Guess("pm2", "ping", "is it there", "outlive doctor", 2),
    Guess("pm2", "env web", "its environment", "outlive inspect (?:ID|web)", 2),
)
_NOHUP = (
    Guess("nohup", "nohup sleep 300", "survive the terminal", _ID, before="none"),
    Guess("nohup", "sleep 300", "run it", _RUN_IT, 2, "none"),
    Guess("nohup", "jobs", "list", _ROW),
    Guess("nohup", "fg", "to the foreground", "ready", None),
    Guess("nohup", "bg web", "let it go on", r"web \(\w{6}\) goes on"),
    Guess("nohup", "disown", "leave it running", "ctrl-p ctrl-q", 2),
    Guess("nohup", "kill -9 web", "kill it", _STOPS),
    Guess("nohup", "kill -CONT web", "send a signal", r"web \(\w{6}\) got CONT"),
    Guess("screen", "-dmS tower sleep 300", "a session in the background", _ID, before="none"),
    Guess("screen", "-S here echo hi", "a session here", "^hi$", before="none"),
    Guess("screen", "-ls", "list", _ROW),
    Guess("screen", "-r web", "to the foreground", "ready", None),
    Guess("screen", "-X -S web quit", "end it", "outlive stop", 2),
)
_SYSTEMCTL = (
    Guess("systemctl", "status web", "how it is", "^state +(?:running|asks for input)"),
    Guess("systemctl", "status", "how all are", _ROW),
    Guess("systemctl", "start job", "start it", r"job \(\w{6}\) runs again", before="job"),
    Guess("systemctl", "start web", "start it", "'web' lives already", 1),
    Guess("systemctl", "stop web", "stop it", _STOPS),
    Guess("systemctl", "try-restart web", "again", _AGAIN),
    Guess("systemctl", "is-active web", "does it run", "outlive ps web", 2),
    Guess("systemctl", "enable web", "at every boot", _NOT_SAVED, 2),
    Guess("systemctl", "daemon-reload", "read files anew", _NOT_SAVED, 2),
    Guess("systemctl", "list-units --all", "list", _ROW),
    Guess("systemctl", "kill -s CONT web", "send a signal", r"web \(\w{6}\) got CONT"),
    Guess("systemctl", "show web", "everything of it", r"^command +"),
    Guess("systemctl", "reset-failed", "forget failures", "outlive ps -a", 2),
    Guess("systemctl", "cat web", "what it is made of", "outlive inspect|outlive run -- cat", 2),
    Guess("systemctl", "journalctl -u web -f", "its output", "outlive logs NAME", 2),
)
_KUBECTL = (
    Guess("kubectl", "get pods", "list", _ROW),
    Guess("kubectl", "get pod web", "one of them", _ROW),
    Guess("kubectl", "describe pod web", "everything of it", r"^command +"),
    Guess("kubectl", "delete pod web", "end and forget it", _LIVES, 1),
    Guess("kubectl", "logs web --tail=5", "the last lines", "^ready$"),
    Guess("kubectl", "logs -f web", "follow its output", "^ready$", None),
    Guess("kubectl", "logs web --previous", "of the run before", "outlive ps -a", 2),
    Guess("kubectl", "exec -it web -- sh", "a shell inside", _INSIDE, 1),
    Guess("kubectl", "top pods --no-stream", "what they use", "running|asks for"),
    Guess("kubectl", "port-forward web 8080:80", "reach a port", "outlive stats (?:ID|web)", 2),
    Guess("kubectl", "apply -f x.yaml", "start services", "outlive up -d", 2),
    Guess("kubectl", "rollout restart deployment/web", "again", "outlive restart ID", 2),
    Guess("kubectl", "label pods web a=b", "give it a label", "outlive tag ID", 2),
    Guess("kubectl", "cluster-info", "is all well", "outlive doctor", 2),
    Guess("kubectl", "config view", "the settings", "There are: show", 2),
)
_FOREMAN = (
    Guess("foreman", "start", "start all services", _NO_FILES, 1, "none"),
    Guess("foreman", "start -f Procfile", "start all services", "/Procfile cannot be read", 1, "none"),
    Guess("foreman", "run echo hi", "run once", "^hi$", before="none"),
    Guess("foreman", "check", "is it right", "outlive policy check", 2),
    Guess("foreman", "export systemd", "units", "outlive service install", 2),
    Guess("overmind", "connect web", "to the foreground", "ready", None),
    Guess("overmind", "quit", "end all", "nothing that runs ends with it", 2),
    Guess("process-compose", "up", "start all services", _NO_FILES, 1),
    Guess("process-compose", "down", "end all services", "no services that run.*outlive up", 1),
    Guess("process-compose", "process list", "list", _ROW),
    Guess("process-compose", "process restart web", "again", _AGAIN),
    Guess("process-compose", "process logs web", "its output", "^ready$"),
)
GUESSES: tuple[Guess, ...] = (
    *_DOCKER,
    *_PUEUE,
    *_TMUX,
    *_PM2,
    *_NOHUP,
    *_SYSTEMCTL,
    *_KUBECTL,
    *_FOREMAN,
)

# The first 15 verbs or flags that the help of six programs shows, in its order: the line, and what it means.
# tmux's help shows 13 flags; the first two of its `list-commands` follow them. foreman's six verbs are
# followed by the flags of `start` and the first of `export`.
FIRST_OF_HELP: tuple[Guess, ...] = (
    Guess("docker", "run echo hi", "run a command", "^hi$"),
    Guess("docker", "exec web ls /", "a program inside", _INSIDE, 1),
    Guess("docker", "ps", "list what runs", _ROW),
    Guess("docker", "build .", "make an image", "`docker build .`", 2),
    Guess("docker", "pull alpine", "get an image", "`docker pull alpine`", 2),
    Guess("docker", "push alpine", "publish an image", "`docker push alpine`", 2),
    Guess("docker", "images", "list images", "`docker images`", 2),
    Guess("docker", "login", "authenticate to a registry", "`docker login`", 2),
    Guess("docker", "logout", "leave a registry", "`docker logout`", 2),
    Guess("docker", "search ready", "find", "^web: ready$"),
    Guess("docker", "version", "the version", r"^outlive \d"),
    Guess("docker", "info", "how it is set up", "^ok +", None),
    Guess("docker", "builder prune", "free the space of builds", "`docker builder prune`", 2),
    Guess("docker", "checkpoint ls web", "list saved states", "outlive pause ID", 2),
    Guess("docker", "container ls", "list what runs", _ROW),
    Guess("pueue", "add sleep 1", "enqueue a command", _ID),
    Guess("pueue", "remove job", "forget it", r"job \(\w{6}\) is removed", 0, "job"),
    Guess("pueue", "switch 1 2", "another order", "outlive ps` shows", 2),
    Guess("pueue", "stash web", "keep it back", "--group-limit", 2),
    Guess("pueue", "enqueue web", "let it go", "--group-limit", 2),
    Guess("pueue", "start web", "let it go on, if paused", "'web' lives already", 1),
    Guess("pueue", "restart job", "again", r"job \(\w{6}\) runs again", 0, "job"),
    Guess("pueue", "pause web", "stop it for a while", r"web \(\w{6}\) is paused"),
    Guess("pueue", "kill web", "kill it", _STOPS),
    Guess("pueue", "send web yes", "write to its input", "^$"),
    Guess("pueue", "edit web", "change it", "outlive restart web", 2),
    Guess("pueue", "group", "list the groups", "outlive ps --group NAME", 2),
    Guess("pueue", "status", "list", _ROW),
    Guess("pueue", "format-status", "another form", "outlive ps --json", 2),
    Guess("pueue", "log web", "its output", "^ready$"),
    Guess("tmux", "-2", "256 colours", "TERM=xterm-256color outlive run -t", 2),
    Guess("tmux", "-C", "be read by a program", "outlive events --json", 2),
    Guess("tmux", "-D", "the server in the foreground", "`outlive serve`", 2),
    Guess("tmux", "-l", "as a login shell", "bash -l", 2),
    Guess("tmux", "-N", "start no server", "outlive ps --no-start", 2),
    Guess("tmux", "-u", "the terminal takes UTF-8", "LANG=C.UTF-8", 2),
    Guess("tmux", "-v", "say more", "--log-level debug", 2),
    Guess("tmux", "-V", "the version", r"^outlive \d"),
    Guess("tmux", "-c 'echo hi'", "run a line of the shell", "^hi$"),
    Guess("tmux", "-f tmux.conf ls", "settings of another file", "outlive config show --origin", 2),
    Guess("tmux", "-L other ls", "another server, by name", "outlive --state-dir FOLDER", 2),
    Guess("tmux", "-S /tmp/other ls", "another server, by socket", "outlive --state-dir FOLDER", 2),
    Guess("tmux", "-T 256 ls", "features of the terminal", "TERM=xterm-256color outlive run -t", 2),
    Guess("tmux", "attach-session -t web", "to the foreground", "ready", None),
    Guess("tmux", "bind-key x kill-pane", "a key", "--detach-keys", 2),
    Guess("pm2", "start 'sleep 300'", "start a line in the background", _ID),
    Guess("pm2", "trigger web reload", "call an action of the program", "outlive signal USR1 ID", 2),
    Guess("pm2", "deploy production", "put it onto another machine", "outlive cp FOLDER NODE:FOLDER", 2),
    Guess("pm2", "startOrRestart apps.json", "start services, or again", "outlive up -d", 2),
    Guess("pm2", "startOrReload apps.json", "start services, or again without a gap", "outlive up -d", 2),
    Guess("pm2", "pid web", "its pid", "`outlive ps web` shows id and pid", 2),
    Guess("pm2", "create", "a file of services to begin with", "outlive.processes.toml", 2),
    Guess(
        "pm2", "startOrGracefulReload apps.json", "start services, or again without a gap", "outlive up -d", 2
    ),
    Guess("pm2", "stop web", "stop it", _STOPS),
    Guess("pm2", "restart web", "again", _AGAIN),
    Guess("pm2", "scale web 4", "four of it", "outlive rerun ID", 2),
    Guess("pm2", "profile:mem", "the memory of the daemon", "outlive keeper status", 2),
    Guess("pm2", "profile:cpu", "the processor time of the daemon", "outlive keeper status", 2),
    Guess("pm2", "reload web", "again without a gap", "outlive signal HUP web", 2),
    Guess("pm2", "id web", "its id", "`outlive ps web` shows id and pid", 2),
    Guess("systemctl", "list-units", "list", _ROW),
    Guess("systemctl", "list-automounts", "list mounts", "`systemctl list-automounts`", 2),
    Guess("systemctl", "list-sockets", "which ports are open", "outlive stats", 2),
    Guess("systemctl", "list-timers", "what starts by the clock", "cron", 2),
    Guess("systemctl", "is-active web", "does it run", "outlive ps web", 2),
    Guess("systemctl", "is-failed web", "has it failed", "outlive ps -a", 2),
    Guess("systemctl", "status web", "how it is", "^state +(?:running|asks for input)"),
    Guess("systemctl", "show web", "everything of it", "^command +"),
    Guess("systemctl", "cat web", "what it is made of", "outlive inspect web", 2),
    Guess("systemctl", "help web", "its manual", "outlive inspect web", 2),
    Guess("systemctl", "list-dependencies web", "what it needs", "outlive up -d web", 2),
    Guess("systemctl", "start job", "start it", r"job \(\w{6}\) runs again", 0, "job"),
    Guess("systemctl", "stop web", "stop it", _STOPS),
    Guess("systemctl", "reload web", "have it read its settings anew", "outlive signal HUP web", 2),
    Guess("systemctl", "restart web", "again", _AGAIN),
    Guess("foreman", "check", "is the Procfile right", "outlive up --dry-run", 2),
    Guess("foreman", "export systemd", "units", "outlive service install", 2),
    Guess("foreman", "help start", "help", "with nothing behind it `outlive up`"),
    Guess("foreman", "run echo hi", "run once", "^hi$"),
    Guess("foreman", "start", "start all services", _NO_FILES, 1),
    Guess("foreman", "version", "the version", r"^outlive \d"),
    Guess("foreman", "start -f Procfile", "of this file", "/Procfile cannot be read", 1),
    Guess("foreman", "start -d .", "in this folder", _NO_FILES, 1),
    Guess("foreman", "start -c", "in colours", _NO_FILES, 1),
    Guess("foreman", "start -e .env", "variables of a file", "env_file", 2),
    Guess("foreman", "start -m web=2", "so many of each", "outlive up web1", 2),
    Guess("foreman", "start -p 5000", "the first port", "PORT=5000 outlive up", 2),
    Guess("foreman", "start -t 5", "with five seconds' grace", "`grace`", 2),
    Guess("foreman", "start --no-timestamp", "without times", _NO_FILES, 1),
    Guess("foreman", "export -a app systemd", "units under a name", "outlive service install", 2),
)
