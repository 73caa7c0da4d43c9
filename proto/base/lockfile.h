/* lockfile.h
 * a file whose exclusive lock says that its owner lives, and which holds the owner's process id. */
#ifndef STX_LOCKFILE_H
#define STX_LOCKFILE_H

#include "status.h"

/* Locks the open file fd for this process and writes its id there, for people. Processes that an
 * owner forked share its lock until they execute another program: when the owner is dead, those are
 * waited for, a few seconds at most. BUSY: *holder is the owner's id; IO: errno says why. Any
 * thread. The lock ends with the last descriptor. */
stx_err stx_lock_file(int fd, long *holder);

#endif
