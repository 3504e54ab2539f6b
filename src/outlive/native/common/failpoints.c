/* What tests set. An unset variable costs one comparison with NULL at each place. */
#include "failpoints.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *armed_failpoint;
static const char *token, *missing;

void read_settings_of_tests(void)
{
    char *setting = getenv("OUTLIVE_FAILPOINT");
    char *at = setting != NULL ? strchr(setting, '@') : NULL;

    missing = getenv("OUTLIVE_DEGRADE");
    if (at == NULL)
        return;
    *at = '\0';
    armed_failpoint = setting;
    token = at + 1;
}

bool lacks(const char *what)
{
    return missing != NULL && strstr(missing, what) != NULL;
}

void reach_failpoint(const char *name)
{
    if (strcmp(name, armed_failpoint) == 0 && unlink(token) == 0)
        kill(getpid(), SIGKILL);
}
