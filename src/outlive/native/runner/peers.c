/* Peers that connect to a command's socket, and may become its supervisor. A peer that may not learns nothing and changes
   nothing. */
#include "peers.h"

#include <unistd.h>

#include "../common/kernel.h"
#include "../common/packets.h"

enum { YIELDS_MS = 1000 }; /* so long a peer may be silent though others wait */

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
