/* outlive-runner: one static program that plays several parts, so that a container or a shim needs one file. The first word
   of the command line says which part; what each part does is in the file that its function is named for. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "filter/filter_stage.h"
#include "runner/server.h"
#include "shim/shim_loop.h"

#define VERSION "outlive-runner 1\n"

enum {
    NO_PART = -1, /* the words make no sense to a part */
    USAGE = 64,   /* sysexits.h EX_USAGE */
};

static int run_part(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return write(1, VERSION, strlen(VERSION)) < 0;
    if (argc >= 3 && argc <= 5 && strcmp(argv[1], "serve") == 0)
        return run_server(argc - 2, argv + 2);
    if (argc >= 3 && strcmp(argv[1], "shim") == 0)
        return run_shim(argv[2], argc >= 4 && strcmp(argv[3], "--lock-at-0") == 0);
    if (argc == 2 && strcmp(argv[1], "try") == 0)
        return try_command();
    return NO_PART;
}

int main(int argc, char **argv)
{
    if (argc >= 1 && is_filter(argv[0])) /* bash takes us for it: the name is all that says so */
        return run_filter_stage(argv);
    int exit_code = run_part(argc, argv);

    if (exit_code != NO_PART)
        return exit_code;
    dprintf(2, "outlive-runner: usage: serve --handed --lock=DEVICE:INODE SOCKET | --version\n");
    return USAGE;
}
