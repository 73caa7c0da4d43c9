/* worker.h
 * the worker process: warms the compiler, closes the sandbox, then serves one job at a time on
 * fd 3. */
#ifndef STX_WORKER_H
#define STX_WORKER_H

#define STX__WORKER_FD 3

/* `staxd --worker [name=value]...`, the arguments after --worker: parent=PID, memory=BYTES,
 * sched=normal|nice|idle, require-sandbox=1. Without arguments: a private worker of libstax, which
 * may say STAX_WORKER_SANDBOX=off. Returns the exit status: 0 when the other side closed. */
int stx_worker_main(int argc, char **argv);

#endif
