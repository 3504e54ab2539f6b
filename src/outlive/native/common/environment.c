/* The environment of a command. Its size is bounded only by execve(2), so names are looked up in a table of hashes. */
#include "environment.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

/* Names are found by a table of hashes: a block may hold tens of thousands of words. */
struct table {
    char **words; /* in the order of their names' first appearance */
    size_t count;
    size_t *places; /* index into `words` plus 1, 0 is free */
    size_t mask;
};

static size_t name_length(const char *word)
{
    return strcspn(word, "=");
}

static size_t hash_of(const char *name, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t index = 0; index < length; index++)
        hash = (hash ^ (unsigned char)name[index]) * 0x100000001b3;
    return (size_t)(hash ^ hash >> 32);
}

static void put(struct table *table, char *word)
{
    size_t length = name_length(word);

    if (length == 0)
        return;
    for (size_t place = hash_of(word, length);; place++) {
        size_t *found = &table->places[place & table->mask];
        if (*found == 0) {
            table->words[table->count++] = word;
            *found = table->count;
            return;
        }
        char *other = table->words[*found - 1];
        if (name_length(other) == length && memcmp(other, word, length) == 0) {
            table->words[*found - 1] = word;
            return;
        }
    }
}

char **overlaid(char **words, size_t count, char **secrets, size_t secret_count)
{
    size_t own = 0, size = 1;

    while (environ != NULL && environ[own] != NULL)
        own++;
    while (size < 2 * (own + count + secret_count + 1)) /* half empty: a search ends */
        size *= 2;
    struct table table = {
        .words = claim((own + count + secret_count + 1) * sizeof *table.words),
        .places = claim(size * sizeof *table.places),
        .mask = size - 1,
    };
    if (table.words == NULL || table.places == NULL)
        return NULL;
    memset(table.places, 0, size * sizeof *table.places);
    for (size_t index = 0; index < own; index++)
        put(&table, environ[index]);
    for (size_t index = 0; index < count; index++)
        put(&table, words[index]);
    for (size_t index = 0; index < secret_count; index++)
        put(&table, secrets[index]);
    size_t kept = 0;
    for (size_t index = 0; index < table.count; index++)
        if (table.words[index][name_length(table.words[index])] == '=')
            table.words[kept++] = table.words[index];
    table.words[kept] = NULL;
    return table.words;
}

const char *value_of(char **env, const char *name)
{
    size_t length = strlen(name);

    for (; *env != NULL; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    return NULL;
}
