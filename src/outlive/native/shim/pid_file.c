/* The process's record, its file `pid` (src/outlive/protocols/frames.py): lines that say what has become of the command. */
#include "pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Empty without O_TRUNC, which makes ext4 write the file out at once (decision 26). Returns the descriptor, or -1. */
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
    ssize_t written = write(fd, line, strlen(line));

    return written < 0 ? errno : written == (ssize_t)strlen(line) ? 0 : ENOSPC;
}

int shim_add_line(struct shim *shim, const char *line)
{
    int fd = open(shim_path(shim, "/pid"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    size_t size = strlen(line);

    if (fd < 0)
        return errno;
    ssize_t written = write(fd, line, size); /* within a page: a full disk grants all of it or nothing (decision 27) */
    int error = written < 0 ? errno : written == (ssize_t)size ? 0 : ENOSPC;
    close(fd);
    return error;
}
