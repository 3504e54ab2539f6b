"""What people run in a workspace runs there: databases, compilers, build tools, and the runtimes of four
languages.
"""

import glob
import os
import shutil
from collections.abc import Iterator

import pytest

from outlive.core.command import Profile
from tests.escapes.scene import Scene

_NOBODY = 65534
_USERS = (0, _NOBODY) if os.geteuid() == 0 else (os.geteuid(),)

_POSTGRES = """
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH
initdb -D db -U postgres -A trust > initdb.log 2>&1 || { cat initdb.log; exit 1; }
pg_ctl -D db -w -l server.log -o "-k $PWD -c listen_addresses=''" start > /dev/null || { cat server.log; exit 1; }
psql -h "$PWD" -U postgres -tAc 'select 6 * 7' postgres
pg_ctl -D db -w -m fast stop > /dev/null
"""  # noqa: E501 -- lines of a table, or of another language
_MAKE = r"""
cat > hello.c <<'C'
#include <stdio.h>
int main(void) { puts("42"); return 0; }
C
printf 'hello: hello.c\n\tgcc -O2 -o $@ $<\nall: hello\n\t./hello\n' > Makefile
nice -n 5 make -s -j2 all
"""
_SANITIZED = r"""
cat > leak.c <<'C'
#include <stdlib.h>
int main(void) { volatile char *p = malloc(4242); p = 0; return 0; }
C
gcc -fsanitize=address -o leak leak.c && ./leak 2>&1 | grep -o '4242 byte(s) leaked'
"""
_JAVA = r"""
cat > Main.java <<'J'
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.stream.*;
public class Main {
    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        Future<Integer> sum = pool.submit(() -> IntStream.rangeClosed(1, 6).parallel().map(i -> 2 * i).sum());
        Thread high = new Thread(() -> { });
        high.setPriority(Thread.MAX_PRIORITY);
        high.start();
        high.join();
        Files.writeString(Path.of("written"), "x");
        Process child = new ProcessBuilder("/bin/sh", "-c", "exit 0").start();
        if (child.waitFor() != 0) throw new IllegalStateException();
        pool.shutdown();
        System.out.println(sum.get());
    }
}
J
java Main.java
"""
_NODE = r"""
node -e '
const { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
const os = require("os"), http = require("http"), fs = require("fs");
os.setPriority(0, 5);
fs.writeFileSync("written", execFileSync("/bin/echo", ["6"]));
const worker = new Worker("require(\"worker_threads\").parentPort.postMessage(7)", { eval: true });
worker.on("message", (seven) => fs.promises.readFile("written", "utf8").then((six) => {
  const server = http.createServer((_, answer) => answer.end(String(six * seven)));
  server.listen("node.sock", () => http.get({ socketPath: "node.sock" }, (got) => {
    got.on("data", (text) => { console.log(String(text)); server.close(); process.exit(0); });
  }));
}));
'
"""
_PYTHON = r"""
python3 -c '
import asyncio, multiprocessing, os, resource, socket, subprocess, threading
def square(number): return number * number
if __name__ == "__main__":
    os.nice(3); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.setpriority(os.PRIO_PROCESS, 0, 5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX): socket.socket(family).close()
    thread = threading.Thread(target=asyncio.run, args=(asyncio.sleep(0),)); thread.start(); thread.join()
    subprocess.run(["/bin/true"], check=True)
    with multiprocessing.Pool(2) as pool: print(sum(pool.map(square, [1, 4, 5])))
'
"""
_GIT = r"""
git init -q repository && cd repository && echo 42 > file && git add file
git -c user.name=n -c user.email=e commit -q -m first && git gc -q && git show HEAD:file
"""
_OWN = r"""
ulimit -n 64; ionice -c 3 true; chrt --batch 0 true; taskset -c 0 true; prlimit --nofile=32 true; renice -n 7 0 > /dev/null 2>&1
setsid sh -c 'kill -TERM $$' ; sh -c 'sleep 60 & kill $!; wait'; [ -r /proc/self/status ] && ps -o pid= -p $$ > /dev/null && echo 42
"""  # noqa: E501 -- lines of a table, or of another language
# What computes in parallel pins threads by their numbers; for an attribute pthread_create(3) names that of
# the new one.
_PINNED = r"""
cat > pinned.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
static void *rest(void *gate) { pthread_mutex_lock(gate); pthread_mutex_unlock(gate); return NULL; }
static void say(const char *what, int error) { printf("%s: %s\n", what, error ? strerror(error) : "done"); }
int main(void)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t mine;
    int error;
    sched_getaffinity(0, sizeof mine, &mine);
    pthread_mutex_lock(&gate);
    pthread_create(&thread, NULL, rest, &gate);
    say("another thread", pthread_setaffinity_np(thread, sizeof mine, &mine));
    pthread_mutex_unlock(&gate);
    pthread_join(thread, NULL);
    say("itself", pthread_setaffinity_np(pthread_self(), sizeof mine, &mine));
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof mine, &mine);
    error = pthread_create(&thread, &attributes, rest, &gate);
    say("a new thread", error);
    return error ? 0 : pthread_join(thread, NULL);
}
C
gcc -O2 -pthread -o pinned pinned.c && ./pinned
"""
_RENICED = """
sleep 60 & renice -n 7 -p $! > /dev/null && ps -o ni= -p $! | tr -d ' '
taskset -cp 0 $! > /dev/null && prlimit --nofile=32 --pid $! && echo done
prlimit --cpu=1 --pid 1 2> /dev/null || echo refused
kill $!
"""
_PROGRAMS = {
    "initdb": (("initdb",), _POSTGRES),
    "make": (("make", "gcc"), _MAKE),
    "sanitizer": (("gcc",), _SANITIZED),
    "java": (("java",), _JAVA),
    "node": (("node",), _NODE),
    "python": (("python3",), _PYTHON),
    "git": (("git",), _GIT),
    "oneself": (("ionice", "chrt", "taskset", "prlimit", "ps"), _OWN),
}
_PATH = ":".join(["/usr/local/bin:/usr/bin:/bin", *glob.glob("/usr/lib/postgresql/*/bin")])


@pytest.fixture(scope="module", params=_USERS, ids=lambda user: "root" if user == 0 else f"uid {user}")
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A keeper of one user."""
    with Scene(user=request.param) as found:
        yield found


@pytest.mark.thorough
@pytest.mark.promise("S0.3.walls")
@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_program_that_people_use_runs_in_a_workspace(scene: Scene, name: str) -> None:
    needs, script = _PROGRAMS[name]
    for program in needs:
        if shutil.which(program, path=_PATH) is None:
            assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"{program} is missing"
            pytest.skip(f"{program} is missing")
    if name == "initdb" and scene.user == 0:
        pytest.skip("PostgreSQL refuses to run as root")
    if obstacle := scene.offers().obstacles[Profile.WORKSPACE]:
        pytest.skip(obstacle)
    steps, features = scene.steps(Profile.WORKSPACE)
    if name == "initdb" and "own_ipc" not in features:
        pytest.skip("without an IPC namespace there is no System V IPC, and PostgreSQL needs some")
    code, out, err = scene.run(steps, "/bin/sh", "-c", script)
    assert (code, out.split()[:1]) == (0, [b"4242" if name == "sanitizer" else b"42"]), (
        out[-2000:],
        err[-2000:],
    )


@pytest.mark.thorough
@pytest.mark.promise("S0.3.walls")
@pytest.mark.parametrize("profile", [Profile.WORKSPACE, Profile.SEALED])
def test_threads_are_pinned_by_others_in_a_pid_namespace_of_their_own_only(
    scene: Scene, profile: Profile
) -> None:
    """Elsewhere the call names a number that another process may have next."""
    if shutil.which("gcc", path=_PATH) is None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), "gcc is missing"
        pytest.skip("gcc is missing")
    if obstacle := scene.offers().obstacles[profile]:
        pytest.skip(obstacle)
    code, out, err = scene.run(scene.steps(profile)[0], "/bin/sh", "-c", _PINNED)
    assert code == 0, err
    answer = "done" if profile is Profile.SEALED else "Operation not permitted"
    # pthread_setaffinity_np(3) names a thread by its number, the caller's own, too.
    expected = dict.fromkeys(("another thread", "itself", "a new thread"), answer)
    assert dict(line.split(": ") for line in out.decode().splitlines()) == expected


@pytest.mark.thorough
@pytest.mark.promise("S0.3.walls")
def test_a_sealed_command_changes_its_own_processes_but_not_our_init(scene: Scene) -> None:
    needed = ("renice", "ps", "taskset", "prlimit")
    if missing := [one for one in needed if shutil.which(one, path=_PATH) is None]:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"{missing} is missing"
        pytest.skip(f"{missing} is missing")
    if obstacle := scene.offers().obstacles[Profile.SEALED]:
        pytest.skip(obstacle)
    code, out, err = scene.run(scene.steps(Profile.SEALED)[0], "/bin/sh", "-c", _RENICED)
    assert (code, out.split()) == (0, [b"7", b"done", b"refused"]), err
