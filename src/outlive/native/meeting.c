/* Who connects to a command's socket, and becomes its supervisor. Nothing is told to anybody else, and nothing changed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel.h"
#include "minder.h"

enum { YIELDS_MS = 1000 }; /* so long a peer may be silent though others wait */

static const char *name_of(enum fate fate)
{
    static const char *const names[] = {"-", "exited", "signaled", "failed"};

    return names[fate];
}

/* Hand everything over: whoever listened before is not there any more, or will see the end of its link. */
static void tell_state(struct minder *minder)
{
    char words[LINE_BYTES];

    snprintf(words, sizeof words, "state own %s %llu %llu %s %d %d %lld", minder->held_count > 0 ? minder->letters : "-",
             minder->has_executed ? minder->pid : 0, minder->has_executed ? minder->ticks : 0, name_of(minder->fate),
             minder->number, minder->is_empty, (long long)minder->ended_ns);
    send_packet(minder->link, words, minder->held, minder->held_count);
}

static void welcome(struct minder *minder, int link)
{
    close_fd(&minder->link);
    minder->link = link;
    tell_state(minder);
}

/* Return a place for one more question: an empty one, else that of the peer which has been silent for too long. */
static struct question *place_for_one(struct minder *minder)
{
    struct question *oldest = &minder->asked[0];

    for (int index = 0; index < ASKED_AT_ONCE; index++) {
        if (minder->asked[index].link < 0)
            return &minder->asked[index];
        if (minder->asked[index].asked_at < oldest->asked_at)
            oldest = &minder->asked[index];
    }
    if (now_ms() - oldest->asked_at < YIELDS_MS)
        return NULL;
    close_fd(&oldest->link);
    return oldest;
}

static int accept_one(struct minder *minder, bool is_hung_up)
{
    int link = accept4(minder->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link >= 0)
        return link;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        minder->is_listener_resting = true;
    else if (is_hung_up || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED))
        close_fd(&minder->listener); /* shut down, which accept4 calls EAGAIN: it would be ready for ever */
    return -1;
}

void meet_peer(struct minder *minder, bool is_hung_up)
{
    uid_t uid = 0;
    struct question *question = place_for_one(minder);

    if (question == NULL) { /* it waits in the backlog */
        minder->is_listener_resting = true;
        return;
    }
    int link = accept_one(minder, is_hung_up);
    if (link < 0)
        return;
    pid_t pid = peer_of(link, &uid);
    bool may_come = pid >= 0 && uid == minder->owner && (pid == 0 || minder->lets_any_in);
    if (may_come && minder->lock < 0)
        welcome(minder, link);
    else if (!may_come || !ask(question, link))
        close(link);
}

void hear_asked(struct minder *minder, int index)
{
    struct question *question = &minder->asked[index];
    enum proof proof = question->link < 0 ? CANNOT_TELL : hear_answer(question, minder->lock);

    if (proof == CANNOT_TELL)
        return;
    int link = question->link;
    question->link = -1;
    if (proof == IS_HOLDER)
        welcome(minder, link);
    else
        close(link);
}
