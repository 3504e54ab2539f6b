/* Listening for packets on a path, and complaints about what cannot be done. */
#ifndef OUTLIVE_RUNNER_LISTENER_H
#define OUTLIVE_RUNNER_LISTENER_H

enum { BACKLOG = 64 }; /* connections that wait to be accepted */

/* Listen on a path, mode 0600; a socket that lies there is stale. Returns -1 after a complaint. */
int listen_at(const char *path);

/* Write what errno says about something to the standard error. */
void complain(const char *about);

#endif
