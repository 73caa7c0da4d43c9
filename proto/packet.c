/* packet.c: messages with a descriptor (SCM_RIGHTS). */
#include "packet.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 4 /* room for a peer that sends too many */

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
};

int stx_packet_send(int sock, struct stx_span bytes, int fd)
{
	union control control = { .space = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)bytes.at, bytes.n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	ssize_t n;
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

/* Keeps the first descriptor of a message, closes any other. */
static int first_descriptor(struct msghdr *msg)
{
	int first = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (first < 0)
				first = fd;
			else
				close(fd);
		}
	}
	return first;
}

ssize_t stx_packet_recv(int sock, void *buf, size_t cap, int *fd)
{
	union control control;
	struct iovec iov = { buf, cap };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.space,
			      .msg_controllen = sizeof control.space };
	ssize_t n;
	*fd = -1;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	*fd = first_descriptor(&msg);
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = EMSGSIZE;
	return -1;
}
