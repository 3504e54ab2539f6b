/* outlive-runner: one static program that plays several parts, so that a container or a shim needs one file. The first word
   of the command line says which part; what each part does is in the file that its function is named for.

   The tunnel, which carries streams into containers that no socket reaches, can be left out: compile with
   OUTLIVE_WITHOUT_TUNNEL and without the files of `tunnel`. Nothing else uses them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "filter/filter_stage.h"
#include "runner/server.h"
#include "shim/shim_loop.h"
#ifndef OUTLIVE_WITHOUT_TUNNEL
#include "tunnel/container_proxy.h"
#include "tunnel/multiplexer_loop.h"
#include "tunnel/stream_handover.h"
#endif

#define VERSION "outlive-runner 1\n"

enum {
    NO_PART = -1,     /* the words make no sense to a part */
    USAGE = 64,       /* sysexits.h EX_USAGE */
    UNAVAILABLE = 69, /* sysexits.h EX_UNAVAILABLE */
};

static bool is_tunnel_part(const char *word)
{
    return strcmp(word, "hold") == 0 || strcmp(word, "ferry") == 0 || strcmp(word, "stand") == 0;
}

#ifdef OUTLIVE_WITHOUT_TUNNEL
static int run_tunnel_part(int argc, char **argv)
{
    (void)argc;
    dprintf(2, "outlive-runner: '%s' is a part of the tunnel, which this build leaves out\n", argv[1]);
    return UNAVAILABLE;
}
#else
static int run_tunnel_part(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return run_multiplexer(argv[2], false);
    if (argc == 4 && strcmp(argv[1], "hold") == 0 && strcmp(argv[2], "--any-peer") == 0)
        return run_multiplexer(argv[3], getpid() != 1); /* in a container no process inside is let in */
    if (argc == 3 && strcmp(argv[1], "ferry") == 0)
        return hand_streams_over(argv[2]);
    if (argc >= 5 && strcmp(argv[1], "stand") == 0 && strcmp(argv[2], "--asks") == 0)
        return run_container_proxy(argv[3], argv + 4, true);
    if (argc >= 4 && strcmp(argv[1], "stand") == 0)
        return run_container_proxy(argv[2], argv + 3, false);
    return NO_PART;
}
#endif

static int run_part(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return write(1, VERSION, strlen(VERSION)) < 0;
    if (argc >= 3 && argc <= 5 && strcmp(argv[1], "serve") == 0)
        return run_server(argc - 2, argv + 2);
    if (argc >= 3 && strcmp(argv[1], "shim") == 0)
        return run_shim(argv[2], argc >= 4 && strcmp(argv[3], "--lock-at-0") == 0);
    return argc >= 2 && is_tunnel_part(argv[1]) ? run_tunnel_part(argc, argv) : NO_PART;
}

int main(int argc, char **argv)
{
    if (argc >= 1 && is_filter(argv[0])) /* bash takes us for it: the name is all that says so */
        return run_filter_stage(argv);
    int exit_code = run_part(argc, argv);

    if (exit_code != NO_PART)
        return exit_code;
    dprintf(2, "outlive-runner: usage: outlive-runner serve SOCKET | outlive-runner --version\n");
    return USAGE;
}
