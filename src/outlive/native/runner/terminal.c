/* A pseudoterminal made inside, so that its name exists in the container, too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "container_shim.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441 /* _IO('T', 0x41), kernel >= 4.13: the slave's side, wherever devpts is mounted */
#endif
#ifndef IUTF8
#define IUTF8 0040000
#endif

enum { MOST_SIZE = 65535 };

static int open_slave(int master)
{
    int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    int unlocked = 0;
    unsigned number;
    char path[32];

    if (ioctl(master, TIOCSPTLCK, &unlocked) != 0)
        return -1;
    int slave = ioctl(master, TIOCGPTPEER, flags);
    if (slave >= 0 || ioctl(master, TIOCGPTN, &number) != 0)
        return slave;
    snprintf(path, sizeof path, "/dev/pts/%u", number);
    return open(path, flags);
}

/* Open one of the given size; both descriptors are close-on-exec, the master does not block. Returns 0 or an errno. */
static int open_terminal(unsigned short rows, unsigned short cols, int *master, int *slave)
{
    struct winsize size = {.ws_row = rows, .ws_col = cols};
    struct termios modes;

    *slave = -1;
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (*master < 0)
        return errno;
    *slave = open_slave(*master);
    if (*slave >= 0 && ioctl(*master, TIOCSWINSZ, &size) == 0 && tcgetattr(*slave, &modes) == 0) {
        modes.c_iflag |= IUTF8; /* else erasing a character in a line takes one byte of it */
        if (tcsetattr(*slave, TCSANOW, &modes) == 0)
            return 0;
    }
    int error = errno;
    if (*slave >= 0)
        close(*slave);
    close(*master);
    *master = *slave = -1;
    return error;
}

void make_terminal(struct container_shim *shim, const char *rest)
{
    unsigned long long rows, cols;
    int master;

    if (shim->is_spawned || !take_number(&rest, &rows) || rows > MOST_SIZE || !take_number(&rest, &cols) ||
        cols > MOST_SIZE)
        return;
    close_held(&shim->state, "m");
    close_fd(&shim->terminal);
    shim->terminal_error = open_terminal((unsigned short)rows, (unsigned short)cols, &master, &shim->terminal);
    if (shim->terminal_error == 0)
        hold(&shim->state, 'm', master);
}
