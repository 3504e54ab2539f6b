/* The words of a supervisor, and what they do. What makes no sense does nothing. */
#include "orders.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../common/kernel.h"
#include "../common/process_tree.h"
#include "command_start.h"
#include "terminal.h"

enum { MOST_SIGNAL = 64, MOST_SIZE = 65535 };

static const char CLOSED_ON_REQUEST[] = "oeirwmp";

/* Take a whole number from the front of `*rest`, and the space behind it. False when there is none, or it is too large. */
static bool take_number(const char **rest, unsigned long most, unsigned long *number)
{
    char *end;

    if (**rest < '0' || **rest > '9')
        return false;
    errno = 0;
    *number = strtoul(*rest, &end, 10);
    if (errno != 0 || *number > most || (*end != ' ' && *end != '\0'))
        return false;
    *rest = *end == ' ' ? end + 1 : end;
    return true;
}

static int take_signals(const char *rest, int *numbers, int most)
{
    int count = 0;
    unsigned long number;

    while (*rest != '\0') {
        if (count == most || !take_number(&rest, MOST_SIGNAL, &number))
            return 0;
        numbers[count++] = (int)number;
    }
    return count;
}

static void make_terminal(struct container_shim *shim, const char *rest)
{
    unsigned long rows, cols;
    int master;

    if (shim->is_spawned || !take_number(&rest, MOST_SIZE, &rows) || !take_number(&rest, MOST_SIZE, &cols))
        return;
    release_descriptor(shim, 'm');
    close_fd(&shim->terminal);
    shim->terminal_error = open_terminal((unsigned short)rows, (unsigned short)cols, &master, &shim->terminal);
    if (shim->terminal_error == 0)
        hold_descriptor(shim, 'm', master);
}

static void signal_tree_by(const char *rest)
{
    int numbers[SIGNALS_AT_ONCE];
    int count = take_signals(rest, numbers, SIGNALS_AT_ONCE);

    if (count > 0)
        signal_tree(numbers, count, 0);
}

static void signal_command(const struct container_shim *shim, const char *rest)
{
    int number;

    if (shim->child > 0 && take_signals(rest, &number, 1) == 1)
        kill(shim->child, number); /* unreaped: the pid is its own */
}

static void signal_group(const struct container_shim *shim, const char *rest)
{
    int number;

    if (shim->group == 0 || take_signals(rest, &number, 1) != 1)
        return;
    if (shim->child > 0)
        kill(-shim->child, number);
    else /* the pid may be another process's by now: only processes below us, and of that group */
        signal_tree(&number, 1, shim->group);
}

static void close_held(struct container_shim *shim, const char *letters)
{
    for (; *letters != '\0'; letters++)
        if (strchr(CLOSED_ON_REQUEST, *letters) != NULL)
            release_descriptor(shim, *letters);
}

/* Orders that reach processes: those of a command that runs elsewhere go there. */
static bool is_for_the_tree(const char *verb)
{
    return strcmp(verb, "tree") == 0 || strcmp(verb, "one") == 0 || strcmp(verb, "group") == 0 ||
           strcmp(verb, "freeze") == 0;
}

bool carry_out(struct container_shim *shim, struct packet *packet)
{
    char *verb = packet->words;
    char *rest = verb + strcspn(verb, " ");

    if (*rest == ' ')
        *rest++ = '\0';
    if (shim->control >= 0 && is_for_the_tree(verb)) {
        verb[strlen(verb)] = *rest != '\0' ? ' ' : '\0';
        send_packet(shim->control, verb, NULL, 0);
        return true;
    }
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
    else if (strcmp(verb, "tree") == 0)
        signal_tree_by(rest);
    else if (strcmp(verb, "one") == 0)
        signal_command(shim, rest);
    else if (strcmp(verb, "group") == 0)
        signal_group(shim, rest);
    else if (strcmp(verb, "freeze") == 0)
        report_to_supervisor(shim, "frozen %d", freeze_tree());
    return !shim->is_proxy_child;
}
