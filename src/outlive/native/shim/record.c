/* The process's record, its file `pid` (src/outlive/protocols/frames.py): lines that say what has become of the command.
   Its end is recorded before it is reaped, for the zombie is the durable copy until then. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../common/failpoints.h"
#include "../common/kernel.h"
#include "shim.h"

/* Without O_TRUNC, which makes ext4 write the file out at once (decision 26). */
int open_record(struct shim *shim)
{
    int fd = open(shim_path(shim, "/pid"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0 && lseek(fd, 0, SEEK_END) > 0 && (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int write_line(int fd, const char *line)
{
    ssize_t written = write(fd, line, strlen(line)); /* within a page: a full disk grants all or nothing (decision 27) */

    return written < 0 ? errno : written == (ssize_t)strlen(line) ? 0 : ENOSPC;
}

int shim_add_line(struct shim *shim, const char *file, const char *line)
{
    int fd = open(shim_path(shim, file), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    int error = write_line(fd, line);
    close(fd);
    return error;
}

/* False: nothing more is to be reaped now; the end may have to be recorded once more. */
static bool record_exit(struct shim *shim, const siginfo_t *info)
{
    char line[LINE_BYTES];
    int64_t ended_ns = now_ns();

    hit("shim.exiting");
    write_end(line, info, ended_ns, "");
    int error = shim_add_line(shim, "/pid", line);
    /* ENOENT: the folder was deleted, and no place for the line will come. EROFS: the supervisor writes it once it can. */
    shim->must_look = error != 0 && error != ENOENT && error != EROFS;
    if (shim->must_look)
        return false;
    hit("shim.exit_written");
    report_end(&shim->state, info, ended_ns);
    shim_leave_if_forsaken(shim);
    return !shim->state.is_empty && shim->serving != SERVES_NOTHING;
}

void shim_reap(struct shim *shim)
{
    siginfo_t info;
    enum reaped reaped;

    shim->must_look = false;
    do
        reaped = reap_children(shim->state.child, &info);
    while (reaped == REAPED_SOME || (reaped == COMMAND_ENDED && record_exit(shim, &info)));
    if (reaped == NO_CHILD_LEFT && become_empty(&shim->state))
        shim_leave_if_forsaken(shim);
}
