/* spawn COUNT PROGRAM [ARGUMENT...]: the floor of starting, posix_spawn and waitpid in a loop.
 *
 * Prints one JSON line: quantiles of one start to its reaped end. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "ws.h"

extern char **environ;

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: spawn COUNT PROGRAM [ARGUMENT...]\n"), 2;
    int count = atoi(argv[1]), failed = 0;
    int64_t *taken = calloc((size_t)count, sizeof *taken), began = now_ns();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < count; i++) {
        pid_t pid;
        int status;
        int64_t start = now_ns();
        if ((errno = posix_spawn(&pid, argv[2], &actions, NULL, argv + 2, environ))) die("posix_spawn");
        if (waitpid(pid, &status, 0) != pid) die("waitpid");
        taken[i] = now_ns() - start;
        failed += status != 0;
    }
    int64_t elapsed = now_ns() - began;
    qsort(taken, (size_t)count, sizeof *taken, by_value);
    printf("{\"elapsed_ns\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld,\"failed\":%d}\n", (long long)elapsed,
           (long long)quantile(taken, (size_t)count, 0.5), (long long)quantile(taken, (size_t)count, 0.99), failed);
    return 0;
}
