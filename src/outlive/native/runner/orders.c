/* The words of a supervisor, and what they do. What makes no sense does nothing. */
#include "orders.h"

#include <string.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "command_start.h"
#include "terminal.h"

enum { MOST_SIZE = 65535 };

static void make_terminal(struct container_shim *shim, const char *rest)
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

bool carry_out(struct container_shim *shim, struct packet *packet, char *rest)
{
    const char *verb = packet->words;

    if (strcmp(verb, "release") == 0 || strcmp(verb, "quit") == 0)
        return false;
    if (strcmp(verb, "terminal") == 0)
        make_terminal(shim, rest);
    else if (strcmp(verb, "spawn") == 0)
        start_command(shim, packet, rest);
    else if (strcmp(verb, "go") == 0)
        let_execute(shim, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(&shim->state, rest);
    return true;
}
