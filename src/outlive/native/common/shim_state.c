/* What a shim holds, and what it reports to its supervisor. */
#include "shim_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failpoints.h"
#include "kernel.h"

static const char *const ENDINGS[] = {"-", "exited", "signaled", "failed"};

int open_wake(bool has_term)
{
    sigset_t wanted;

    block_all_signals(true);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    if (has_term)
        sigaddset(&wanted, SIGTERM);
    return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

void report(const struct shim_state *state, const char *format, ...)
{
    char words[LINE_BYTES];
    va_list values;

    if (state->link < 0)
        return;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    /* A dead or deaf supervisor is no reason to stop: its successor asks for the state. */
    send_packet(state->link, words, NULL, 0);
}

char *hear_supervisor(struct shim_state *state, struct packet *packet)
{
    enum heard heard = receive_packet(state->link, packet);

    if (heard == HEARD_END)
        close_fd(&state->link);
    if (heard != HEARD_PACKET)
        return NULL;
    char *rest = packet->words + strcspn(packet->words, " ");
    if (*rest == ' ')
        *rest++ = '\0';
    return rest;
}

int accept_peer(struct shim_state *state, bool is_hung_up)
{
    int link = accept4(state->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link >= 0)
        return link;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        state->is_listener_resting = true;
    else if (is_hung_up || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED))
        close_fd(&state->listener); /* shut down, which accept4 calls EAGAIN: it would be ready for ever */
    return -1;
}

void take_link(struct shim_state *state, int link)
{
    close_fd(&state->link);
    state->link = link;
    if (!lacks("wake"))
        wake_by(link);
}

void send_state(const struct shim_state *state, bool is_own)
{
    char words[LINE_BYTES];

    snprintf(words, sizeof words, "state %s %s %llu %llu %s %d %d %lld", is_own ? "own" : "hold",
             state->held_count > 0 ? state->letters : "-", state->pid, state->ticks, ENDINGS[state->ending],
             state->number, state->is_empty, (long long)state->ended_ns);
    send_packet(state->link, words, state->held, state->held_count);
}

bool are_letters_good(const struct packet *packet, const char *letters, size_t count, const char *held, const char *own)
{
    if (count != (size_t)packet->count)
        return false;
    for (size_t index = 0; index < count; index++) {
        bool is_listening = letters[index] == 'L';
        if (!is_listening && strchr(held, letters[index]) == NULL && strchr(own, letters[index]) == NULL)
            return false;
        if (memchr(letters, letters[index], index) != NULL || (is_listening && !is_listener(packet->fds[index])))
            return false;
    }
    return true;
}

void place_descriptors(struct shim_state *state, struct packet *packet, const char *letters, size_t count, const char *own,
                       int *ends)
{
    for (size_t index = 0; index < count; index++) {
        const char *found = strchr(own, letters[index]);
        if (letters[index] == 'L')
            state->listener = packet->fds[index];
        else if (found != NULL)
            ends[found - own] = packet->fds[index];
        else
            hold(state, letters[index], packet->fds[index]);
        packet->fds[index] = -1;
    }
}

void hold(struct shim_state *state, char letter, int fd)
{
    state->letters[state->held_count] = letter;
    state->held[state->held_count++] = fd;
    state->letters[state->held_count] = '\0';
}

int held_under(const struct shim_state *state, char letter)
{
    const char *found = strchr(state->letters, letter);

    return found == NULL ? -1 : state->held[found - state->letters];
}

void close_held(struct shim_state *state, const char *letters)
{
    int kept = 0;

    for (int index = 0; index < state->held_count; index++) {
        if (letters == NULL || strchr(letters, state->letters[index]) != NULL) {
            close(state->held[index]);
            continue;
        }
        state->letters[kept] = state->letters[index];
        state->held[kept++] = state->held[index];
    }
    state->letters[kept] = '\0';
    state->held_count = kept;
}

void note_failure(struct shim_state *state, int number, const char *place, char line[LINE_BYTES])
{
    state->ending = HAS_FAILED;
    state->number = number;
    state->ended_ns = now_ns();
    state->is_empty = true;
    snprintf(line, LINE_BYTES, "failed %d %lld %s\n", number, (long long)state->ended_ns, place);
}

static enum ending ending_of(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? HAS_EXITED : WAS_SIGNALED;
}

void write_end(char line[LINE_BYTES], const siginfo_t *info, int64_t ended_ns, const char *note)
{
    snprintf(line, LINE_BYTES, "%s %d %lld %s\n", ENDINGS[ending_of(info)], info->si_status, (long long)ended_ns, note);
}

void report_end(struct shim_state *state, const siginfo_t *info, int64_t ended_ns)
{
    siginfo_t other;

    state->ending = ending_of(info);
    state->number = info->si_status;
    state->ended_ns = ended_ns;
    reap_one(state->child);
    state->child = 0;
    hit("shim.reaped");
    state->is_empty = !find_ended(&other);
    report(state, "exited %s %d %d %lld", ENDINGS[state->ending], state->number, state->is_empty, (long long)ended_ns);
}

bool become_empty(struct shim_state *state)
{
    if (state->ending == RUNS || state->is_empty)
        return false;
    state->is_empty = true;
    report(state, "empty");
    return true;
}
