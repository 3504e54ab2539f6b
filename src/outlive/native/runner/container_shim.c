/* What the shim of a container's command holds. The files that act on it, from the loop down, are described in
   container_shim_loop.h. */
#include "container_shim.h"

void command_never_ran(struct container_shim *shim, int number, const char *place)
{
    char line[LINE_BYTES];

    note_failure(&shim->state, number, place, line);
    add_record(&shim->record, line);
    report(&shim->state, "failed %d %s", number, place);
}
