/* channel.h
 * messages between daemon and worker: one packed Envelope and at most one sealed memfd, on
 * SOCK_SEQPACKET. */
#ifndef STX_CHANNEL_H
#define STX_CHANNEL_H

#include "frame.h"
#include "memfd.h"

/* A received message. Freed by stx__message_free; the body lives as long. */
struct stx__message {
	Stx__Envelope *e;
	struct stx_span body; /* without a spilled envelope */
	struct stx__map map;
	int fd;    /* of the body, or -1 */
	int whole; /* 1: fd holds exactly the body and may be passed on; never of a copied body */
};

/* Sends e with the concatenated pieces as body, or with the sealed descriptor body_fd (borrowed)
 * when it is not -1. An envelope over the header limit spills, which body_fd excludes. Returns
 * AGAIN as BUSY. */
stx_err stx__channel_send(int sock, const Stx__Envelope *e, const struct stx_span *pieces,
			  uint32_t npieces, int body_fd, struct stx_diag *d);
/* Receives one message. CONNECT when the other side is gone, BUSY when a non-blocking socket has
 * none. */
stx_err stx__channel_recv(int sock, enum stx__take how, struct stx__message *out,
			  struct stx_diag *d);
void stx__message_free(struct stx__message *m);
/* The message moves to the caller; m is empty. */
struct stx__message stx__message_take(struct stx__message *m);
/* Takes the body's descriptor out of the message, -1 when there is none that may be passed on. */
int stx__message_take_fd(struct stx__message *m);

#endif
