/* packet.h
 * one message of a SOCK_SEQPACKET socket with at most one descriptor beside it. */
#ifndef STX_PACKET_H
#define STX_PACKET_H

#include <sys/types.h>

#include "bytes.h"

/* 0, or -1 with errno. fd is borrowed; -1: none. */
int stx_packet_send(int sock, struct stx_span bytes, int fd);
/* Bytes received, 0 when the other side is gone, -1 with errno; EMSGSIZE: the message was cut off.
 * *fd is the caller's (close-on-exec), -1 when none came; further ones are closed. */
ssize_t stx_packet_recv(int sock, void *buf, size_t cap, int *fd);

#endif
