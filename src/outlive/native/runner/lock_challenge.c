/* The challenge to a peer that may be the supervisor. In a container every process outside has the pid 0, so the kernel
   cannot say which process holds the lock; what only the holder can do is asked for instead. */
#include "lock_challenge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif

enum {
    WORDS_BYTES = 40,
    ANSWERS_MS = 10000, /* a supervisor on a busy machine; it connects again when that was too short */
};

/* Nothing of the file lies from here on, and no other lock; as many bytes that the end of the file is never near. */
#define FIRST_BYTE ((uint64_t)1 << 40)
#define SOME_BYTES ((uint64_t)1 << 62)

/* Whether another process's open file has these bytes locked for writing. An error counts as no. */
static bool is_locked(int lock, off_t at)
{
    struct flock one = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(lock, F_OFD_GETLK, &one) == 0 && one.l_type == F_WRLCK;
}

static bool is_free(int lock, off_t at)
{
    struct flock one = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(lock, F_OFD_GETLK, &one) == 0 && one.l_type == F_UNLCK;
}

/* Only the byte itself is free. It was chosen at random just now, so it was freed because we asked. */
static bool is_proved(int lock, off_t at)
{
    return is_locked(lock, at - 1) && is_locked(lock, at + 1) && is_free(lock, at);
}

bool ask(struct question *question, int link)
{
    uint64_t random;
    char words[WORDS_BYTES];

    question->link = -1;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    off_t at = (off_t)(FIRST_BYTE + random % (SOME_BYTES - FIRST_BYTE));
    snprintf(words, sizeof words, "prove %lld", (long long)at);
    if (!send_packet(link, words, NULL, 0))
        return false;
    *question = (struct question){.link = link, .at = at, .asked_at = now_ms()};
    return true;
}

enum proof hear_answer(const struct question *question, int lock)
{
    struct packet packet;

    enum heard heard = receive_packet(question->link, &packet);
    if (heard == HEARD_NOTHING)
        return CANNOT_TELL;
    if (heard == HEARD_END)
        return NO_HOLDER;
    bool is_answer = packet.count == 0 && strcmp(packet.words, "proved") == 0;
    close_packet(&packet);
    return is_answer && is_proved(lock, question->at) ? IS_HOLDER : NO_HOLDER;
}

bool proves_itself(int link, int lock, int wake)
{
    struct question question;
    struct pollfd polled[] = {{.fd = wake, .events = POLLIN}, {.fd = link, .events = POLLIN}};
    enum proof proof = CANNOT_TELL;

    if (!ask(&question, link))
        return false;
    while (proof == CANNOT_TELL) {
        int64_t left_ms = question.asked_at + ANSWERS_MS - now_ms();
        int ready = left_ms <= 0 ? 0 : poll(polled, 2, (int)left_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || polled[0].revents != 0)
            return false;
        proof = hear_answer(&question, lock);
    }
    return proof == IS_HOLDER;
}
