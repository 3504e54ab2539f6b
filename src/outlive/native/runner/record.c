/* The record of a command, written through a descriptor that the supervisor handed over: the shim in a container cannot open
   the file by its name. Lines that a full disk has kept back wait in memory and are tried again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container_shim.h"

/* Write all of it or nothing, so that a second try does not stand behind a torn first one. Returns 0 or an errno. */
static int append(int fd, const char *text, size_t size)
{
    struct stat before;

    if (fstat(fd, &before) != 0)
        return errno;
    ssize_t written = write(fd, text, size);
    if (written == (ssize_t)size)
        return 0;
    int error = written < 0 ? errno : ENOSPC;
    if (written > 0 && ftruncate(fd, before.st_size) != 0)
        error = EIO;
    return error;
}

int begin_record(struct record *record)
{
    struct stat state;
    int flags = fcntl(record->fd, F_GETFL);

    if (flags < 0 || fstat(record->fd, &state) != 0)
        return errno;
    if (!S_ISREG(state.st_mode)) /* another kind of file may block, or take back what it took */
        return EINVAL;
    if ((flags & O_APPEND) == 0 && fcntl(record->fd, F_SETFL, flags | O_APPEND) != 0)
        return errno;
    if (state.st_size > 0 && ftruncate(record->fd, 0) != 0)
        return errno;
    return append(record->fd, "starting\n", strlen("starting\n"));
}

void add_record(struct record *record, const char *line)
{
    size_t size = strlen(line);

    if (record->fd < 0 || size > PENDING_BYTES - record->size)
        return;
    memcpy(record->pending + record->size, line, size);
    record->size += size;
    flush_record(record);
}

bool flush_record(struct record *record)
{
    if (record->size == 0)
        return true;
    int error = append(record->fd, record->pending, record->size);
    if (error == ENOSPC || error == EDQUOT || error == EINTR || error == ENOMEM)
        return false;
    record->size = 0; /* written, or there is no place for it, and none will come */
    return true;
}
