/* The words of a supervisor, and what they do. What makes no sense does nothing. */
#include "orders.h"

#include <string.h>

#include "../common/kernel.h"
#include "../common/spec.h"
#include "command_start.h"
#include "terminal.h"

enum { MOST_SIZE = 65535 };

static const char CLOSED_ON_REQUEST[] = "oeirwmp";

static void make_terminal(struct container_shim *shim, const char *rest)
{
    unsigned long long rows, cols;
    int master;

    if (shim->is_spawned || !take_number(&rest, &rows) || rows > MOST_SIZE || !take_number(&rest, &cols) ||
        cols > MOST_SIZE)
        return;
    release_descriptor(shim, 'm');
    close_fd(&shim->terminal);
    shim->terminal_error = open_terminal((unsigned short)rows, (unsigned short)cols, &master, &shim->terminal);
    if (shim->terminal_error == 0)
        hold_descriptor(shim, 'm', master);
}

static void close_held(struct container_shim *shim, const char *letters)
{
    for (; *letters != '\0'; letters++)
        if (strchr(CLOSED_ON_REQUEST, *letters) != NULL)
            release_descriptor(shim, *letters);
}

bool carry_out(struct container_shim *shim, struct packet *packet)
{
    char *verb = packet->words;
    char *rest = verb + strcspn(verb, " ");

    if (*rest == ' ')
        *rest++ = '\0';
    if (strcmp(verb, "release") == 0 || strcmp(verb, "quit") == 0)
        return false;
    if (strcmp(verb, "terminal") == 0)
        make_terminal(shim, rest);
    else if (strcmp(verb, "spawn") == 0)
        start_command(shim, packet, rest);
    else if (strcmp(verb, "go") == 0)
        let_execute(shim, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(shim, rest);
    return true;
}
