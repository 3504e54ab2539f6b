/* Places where a test kills this process. An unset variable costs one comparison with NULL at each of them. */
#include "failpoints.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *armed_failpoint;
static const char *token;

void arm_failpoints(void)
{
    char *setting = getenv("OUTLIVE_FAILPOINT");
    char *at = setting != NULL ? strchr(setting, '@') : NULL;

    if (at == NULL)
        return;
    *at = '\0';
    armed_failpoint = setting;
    token = at + 1;
}

void reach_failpoint(const char *name)
{
    if (strcmp(name, armed_failpoint) == 0 && unlink(token) == 0)
        kill(getpid(), SIGKILL);
}
