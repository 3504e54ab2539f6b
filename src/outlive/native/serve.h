/* What the runner's ways to be the first process have in common. */
#ifndef OUTLIVE_SERVE_H
#define OUTLIVE_SERVE_H

#include <stdbool.h>

enum { BACKLOG = 64 }; /* connections that wait to be accepted */

/* What a file is known by, whatever its name: the daemon says it, so that nobody else can hand over another one. */
struct file_id {
    unsigned long long device, inode;
};

enum reaped { REAPED_ALL, REAPED_SOME, NO_CHILD_LEFT };

/* Prepare this process. Returns a signalfd(2) of SIGCHLD, SIGTERM, SIGINT; -1 after a complaint. */
int begin_serving(void);

/* Read the signals that came: whether one of them says that it is over. */
bool was_told_to_end(int wake);

/* Reap what has ended, no more than fits into a turn. */
enum reaped reap_children(void);

/* TERM to all, KILL to what is left. */
void end_everybody(void);

/* Listen on a path, mode 0600; a socket that lies there is stale. Returns -1 after a complaint. */
int listen_at(const char *path);

/* Listen on a socket that is handed over by whoever listens at `path`, outside of our PID namespace: its name lies where
   nothing inside can reach it. `lock` becomes the supervisor's lock, if that is handed over, too; where one is `wanted`
   nothing else is taken. Waits for that; -1 when a signal says that it is over. (handing.c) */
int listen_handed(const char *path, int wake, const struct file_id *wanted, int *lock);

void complain(const char *about);

/* `outlive-runner hold SOCKET`: the first process of a container that no socket reaches. (holding.c) */
int hold_all(const char *path, bool lets_any_in);

/* `outlive-runner stand [--asks] FOLDER PROGRAM...`: what stands here for such a container; PROGRAM is its ferry. With
   `asks` a supervisor has to prove that it holds its lock. (standing.c) */
int stand_for(const char *folder, char **program, bool asks);

#endif
