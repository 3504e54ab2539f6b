/* What a filter's words say about how it reads; "no" is always right. */
#include "filter_words.h"

#include <string.h>

/* Letters of grep(1) without a value with which it reads on to the end. Not q, m, l and L, which let it leave early, nor r
   and R, with which it reads files. */
static const char GREP_LETTERS[] = "EFGPincvwxhHobsaTUyZ";
static const char DIGITS[] = "0123456789";

static bool is_number(const char *word)
{
    return *word != '\0' && strspn(word, DIGITS) == strlen(word);
}

/* `tail`, `tail -5`, `tail -n 5`, `tail -n5`, `tail -n +5`, and the same with -c. */
static bool tail_reads_all(char *const *argv)
{
    for (int place = 1; argv[place] != NULL; place++) {
        const char *word = argv[place];
        if (*word == '-' && is_number(word + 1))
            continue;
        if (strncmp(word, "-n", 2) != 0 && strncmp(word, "-c", 2) != 0)
            return false;
        const char *value = word[2] != '\0' ? word + 2 : argv[++place];
        if (value == NULL || !is_number(value + (*value == '+' || *value == '-')))
            return false;
    }
    return true;
}

/* Plain letters, -A, -B, -C, -e with a value, --color; and one pattern, no file. */
static bool grep_reads_all(char *const *argv)
{
    int patterns = 0, words = 0;

    for (int place = 1; argv[place] != NULL; place++) {
        const char *word = argv[place];
        if (*word != '-') {
            words++;
            continue;
        }
        if (strncmp(word, "--color", 7) == 0 || is_number(word + 1))
            continue;
        word += 1 + strspn(word + 1, GREP_LETTERS);
        if (*word == '\0' && word > argv[place] + 1)
            continue;
        if (*word == '\0' || strchr("ABCe", *word) == NULL)
            return false;
        patterns += *word == 'e';
        if (word[1] == '\0' && argv[++place] == NULL)
            return false;
    }
    return patterns > 0 ? words == 0 : words == 1;
}

bool reads_to_the_end(char *const *argv)
{
    if (strcmp(argv[0], "tail") == 0)
        return tail_reads_all(argv);
    return strcmp(argv[0], "head") != 0 && grep_reads_all(argv);
}
