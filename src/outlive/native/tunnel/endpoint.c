/* What a tunnel endpoint does at several places: report to the proxy process, and send orders to the command's shim. */
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../common/packets.h"

void notify_proxy(const struct endpoint *endpoint, const char *words)
{
    if (endpoint->proxy >= 0)
        send_packet(endpoint->proxy, words, NULL, 0);
}

void endpoint_not_started(struct endpoint *endpoint, int number, const char *place)
{
    char words[WORD_BYTES];

    endpoint->is_settled = endpoint->is_proxy_ended = endpoint->has_ended = endpoint->is_empty = true;
    endpoint->outputs[0].is_over = endpoint->outputs[1].is_over = true;
    snprintf(words, sizeof words, "failed %d %.39s", number, *place != '\0' ? place : "container");
    notify_proxy(endpoint, words);
}

void endpoint_order(struct endpoint *endpoint, const char *text)
{
    /* Rounds of a kill that wait for a stream count as one; as many different orders as there is room for never wait. */
    if (endpoint->word_count == WORDS_KEPT ||
        (endpoint->word_count > 0 && strcmp(endpoint->words[endpoint->word_count - 1].text, text) == 0))
        return;
    endpoint->is_killed |= strcmp(text, "tree 9") == 0;
    struct words *words = &endpoint->words[endpoint->word_count++];
    words->number = ++endpoint->last_number;
    snprintf(words->text, sizeof words->text, "%s", text);
}

bool endpoint_has_all(const struct endpoint *endpoint)
{
    return endpoint->is_proxy_ended && endpoint->is_empty && endpoint->outputs[0].is_over && endpoint->outputs[1].is_over;
}

bool endpoint_is_over(const struct endpoint *endpoint)
{
    return endpoint_has_all(endpoint) && (endpoint->stream.in < 0 || !endpoint->is_known ||
                              (endpoint->is_released && endpoint->stream.sending_begin == endpoint->stream.sending_end));
}
