/* What a filter's words say about how it reads. Pure. */
#ifndef OUTLIVE_FILTER_WORDS_H
#define OUTLIVE_FILTER_WORDS_H

#include <stdbool.h>

/* Whether it is certain that the filter reads its input to the end: then how much lies in pipes shows nowhere. */
bool reads_to_the_end(char *const *argv);

#endif
