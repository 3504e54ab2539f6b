/* The words of a supervisor, and what they do. What makes no sense does nothing. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "minder.h"
#include "terminal.h"
#include "tree.h"

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

static void make_terminal(struct minder *minder, const char *rest)
{
    unsigned long rows, cols;
    int master;

    if (minder->is_spawned || !take_number(&rest, MOST_SIZE, &rows) || !take_number(&rest, MOST_SIZE, &cols))
        return;
    let_fall(minder, 'm');
    close_fd(&minder->terminal);
    minder->terminal_error = open_terminal((unsigned short)rows, (unsigned short)cols, &master, &minder->terminal);
    if (minder->terminal_error == 0)
        hold(minder, 'm', master);
}

static void signal_tree_by(const char *rest)
{
    int numbers[SIGNALS_AT_ONCE];
    int count = take_signals(rest, numbers, SIGNALS_AT_ONCE);

    if (count > 0)
        signal_tree(numbers, count, 0);
}

static void signal_command(const struct minder *minder, const char *rest)
{
    int number;

    if (minder->child > 0 && take_signals(rest, &number, 1) == 1)
        kill(minder->child, number); /* unreaped: the pid is its own */
}

static void signal_group(const struct minder *minder, const char *rest)
{
    int number;

    if (minder->group == 0 || take_signals(rest, &number, 1) != 1)
        return;
    if (minder->child > 0)
        kill(-minder->child, number);
    else /* the pid may be somebody else's by now: only who is below us, and of that group */
        signal_tree(&number, 1, minder->group);
}

static void close_held(struct minder *minder, const char *letters)
{
    for (; *letters != '\0'; letters++)
        if (strchr(CLOSED_ON_REQUEST, *letters) != NULL)
            let_fall(minder, *letters);
}

static bool is_for_the_tree(const char *verb)
{
    return strcmp(verb, "tree") == 0 || strcmp(verb, "one") == 0 || strcmp(verb, "group") == 0 ||
           strcmp(verb, "freeze") == 0;
}

bool obey(struct minder *minder, struct packet *packet)
{
    char *verb = packet->words;
    char *rest = verb + strcspn(verb, " ");

    if (*rest == ' ')
        *rest++ = '\0';
    if (minder->control >= 0 && is_for_the_tree(verb)) {
        verb[strlen(verb)] = *rest != '\0' ? ' ' : '\0';
        send_packet(minder->control, verb, NULL, 0);
        return true;
    }
    if (strcmp(verb, "release") == 0 || strcmp(verb, "quit") == 0)
        return false;
    if (strcmp(verb, "terminal") == 0)
        make_terminal(minder, rest);
    else if (strcmp(verb, "spawn") == 0)
        spawn(minder, packet, rest);
    else if (strcmp(verb, "go") == 0)
        let_go(minder, rest);
    else if (strcmp(verb, "close") == 0)
        close_held(minder, rest);
    else if (strcmp(verb, "tree") == 0)
        signal_tree_by(rest);
    else if (strcmp(verb, "one") == 0)
        signal_command(minder, rest);
    else if (strcmp(verb, "group") == 0)
        signal_group(minder, rest);
    else if (strcmp(verb, "freeze") == 0)
        say(minder, "frozen %d", freeze_tree());
    return true;
}
