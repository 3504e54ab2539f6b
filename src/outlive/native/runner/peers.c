/* Peers that connect to a command's socket, and may become its supervisor. A peer that may not learns nothing and changes
   nothing.

   It has to prove that it holds the supervisor's lock. The kernel cannot say which process that is: in another PID namespace
   every process outside is number 0. So it is asked for what the lock's holder alone can do: to let go, for a moment, of one
   byte of the lock that we have chosen (fcntl(2), F_OFD_SETLK). Whether it did is read from the lock itself, by a read-only
   descriptor (decision 151).

     to the peer     prove OFFSET
     from the peer   proved             the byte is free now; the answer to that is what it came for, or the end */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"
#include "container_shim.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif

enum {
    WORDS_BYTES = 40,
    YIELDS_MS = 1000, /* so long a peer may be silent though others wait */
    ANSWERS_MS = 10000, /* a supervisor on a busy machine; it connects again when that was too short */
};

/* Nothing of the file lies from here on, and no other lock; as many bytes that the end of the file is never near. */
#define FIRST_BYTE ((uint64_t)1 << 40)
#define SOME_BYTES ((uint64_t)1 << 62)

/* Whether the lock of another process's open file on a byte is of this kind, F_UNLCK for none. An error counts as no. */
static bool is_lock(int lock, off_t at, short kind)
{
    struct flock one = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(lock, F_OFD_GETLK, &one) == 0 && one.l_type == kind;
}

/* Only the byte itself is free. It was chosen at random just now, so it was freed because we asked. */
static bool is_proved(int lock, off_t at)
{
    return is_lock(lock, at - 1, F_WRLCK) && is_lock(lock, at + 1, F_WRLCK) && is_lock(lock, at, F_UNLCK);
}

/* Ask a peer. False: it receives nothing. The question shows a server that we live: more is not revealed without proof. */
static bool ask(struct question *question, int link)
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

/* Return what its next packet proves; CANNOT_TELL as long as none comes. `lock` is a descriptor of our own: through the
   holder's own open file the lock is not seen. */
static enum proof hear_answer(const struct question *question, int lock)
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

/* Hand everything over: a supervisor before this one is gone, or will see the end of its link. */
static void welcome(struct container_shim *shim, int link)
{
    take_link(&shim->state, link);
    send_state(&shim->state, true);
}

/* Return a place for one more question: an empty one, else that of the peer which has been silent for too long. */
static struct question *place_for_one(struct container_shim *shim)
{
    struct question *oldest = &shim->asked[0];

    for (int index = 0; index < ASKED_AT_ONCE; index++) {
        if (shim->asked[index].link < 0)
            return &shim->asked[index];
        if (shim->asked[index].asked_at < oldest->asked_at)
            oldest = &shim->asked[index];
    }
    if (now_ms() - oldest->asked_at < YIELDS_MS)
        return NULL;
    close_fd(&oldest->link);
    return oldest;
}

void meet_peer(struct container_shim *shim, bool is_hung_up)
{
    uid_t uid = 0;
    struct question *question = place_for_one(shim);

    if (question == NULL) { /* it waits in the backlog */
        shim->state.is_listener_resting = true;
        return;
    }
    int link = accept_peer(&shim->state, is_hung_up);
    if (link < 0)
        return;
    pid_t pid = peer_of(link, &uid);
    bool may_come = pid >= 0 && uid == shim->owner && (pid == 0 || shim->lets_any_in);
    if (may_come && shim->state.lock < 0)
        welcome(shim, link);
    else if (!may_come || !ask(question, link))
        close(link);
}

void hear_asked(struct container_shim *shim, int index)
{
    struct question *question = &shim->asked[index];
    enum proof proof = question->link < 0 ? CANNOT_TELL : hear_answer(question, shim->state.lock);

    if (proof == CANNOT_TELL)
        return;
    int link = question->link;
    question->link = -1;
    if (proof == IS_HOLDER)
        welcome(shim, link);
    else
        close(link);
}
