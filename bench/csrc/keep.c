/* keep FILE: standard input into a new file by splice(2), the least that keeping every byte costs.
 *
 * The pipe is 1 MiB large and is collected for 300 us while it is less than half full. */
#include <fcntl.h>

#include "ws.h"

enum { PIPE = 1 << 20, PIECE = 1 << 18, REST_US = 300 };

int main(int argc, char **argv) {
    if (argc != 2) die("usage: keep FILE");
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) die(argv[1]);
    fcntl(0, F_SETPIPE_SZ, PIPE); /* an ordinary user may be refused */
    ssize_t collected = 0, moved;
    while ((moved = splice(0, NULL, file, NULL, PIECE, collected ? SPLICE_F_NONBLOCK : 0))) {
        if (moved < 0 && errno != EAGAIN) die("splice");
        if (moved > 0) collected += moved;
        if (moved == PIECE && collected < PIPE) continue;
        if (collected < PIPE / 2) usleep(REST_US);
        collected = 0;
    }
    return 0;
}
