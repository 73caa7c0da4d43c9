/* channel.c: messages between daemon and worker. */
#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "packet.h"

static stx_err send_packet(int sock, const struct stx_bytes *header, int fd, struct stx_diag *d)
{
	struct stx_span bytes = { header->at + STX_FRAME_PREFIX, header->n - STX_FRAME_PREFIX };
	if (!stx_packet_send(sock, bytes, fd))
		return STX_E_OK;
	if (errno == EAGAIN)
		return stx_fail(d, STX_E_BUSY, "channel", "", "the worker's queue is full");
	return stx_fail(d, STX_E_CONNECT, "channel", "", "sending to a worker: errno %d", errno);
}

/* A sealed memfd with the envelope (when it spills) and the pieces; -1 in *fd when there is
 * nothing. */
static stx_err make_body(const struct stx_span *envelope, const struct stx_span *pieces,
			 uint32_t npieces, int *fd, struct stx_diag *d)
{
	size_t total = envelope->n;
	stx_err err;
	*fd = -1;
	for (uint32_t i = 0; i < npieces; i++) {
		if (pieces[i].n > STX__MEMFD_MAX - total)
			return stx_fail(
				d, STX_E_TOO_LARGE, "channel", "",
				"a message between daemon and worker over the limit of %u bytes",
				STX__MEMFD_MAX);
		total += pieces[i].n;
	}
	if (!total)
		return STX_E_OK;
	int f = stx__memfd_new("stax-body");
	if (f < 0)
		goto fail;
	if (envelope->n && stx__memfd_write(f, envelope->at, envelope->n))
		goto fail;
	for (uint32_t i = 0; i < npieces; i++)
		if (stx__memfd_write(f, pieces[i].at, pieces[i].n))
			goto fail;
	if (stx__memfd_seal(f))
		goto fail;
	*fd = f;
	return STX_E_OK;
fail:
	err = errno == EFBIG /* RLIMIT_FSIZE of a worker */
		      ? stx_fail(d, STX_E_TOO_LARGE, "channel", "",
				 "a reply of %zu bytes is more than a worker of this memory limit "
				 "may send",
				 total)
		      : stx_fail(d, STX_E_NOMEM, "channel", "",
				 "a memory file for a message: errno %d", errno);
	if (f >= 0)
		close(f);
	return err;
}

stx_err stx__channel_send(int sock, const Stx__Envelope *e, const struct stx_span *pieces,
			  uint32_t npieces, int body_fd, struct stx_diag *d)
{
	struct stx_bytes header = { 0 };
	struct stx_span spilled = { 0 };
	int fd = -1;
	stx_err err =
		body_fd >= 0 ? stx_frame_pack(e, 0, &header) : stx_frame_pack_reply(e, 0, &header);
	if (err) {
		stx_fail(d, err, "channel", "", "the envelope of a message does not fit");
		goto out;
	}
	size_t head = STX_FRAME_PREFIX + stx_load_u32(header.at);
	spilled.at = header.at + head;
	spilled.n = header.n - head;
	if (body_fd < 0) {
		err = make_body(&spilled, pieces, npieces, &fd, d);
		if (err)
			goto out;
	}
	header.n = head;
	err = send_packet(sock, &header, body_fd >= 0 ? body_fd : fd, d);
out:
	if (fd >= 0)
		close(fd);
	stx_bytes_free(&header);
	return err;
}

stx_err stx__channel_recv(int sock, enum stx__take how, struct stx__message *out,
			  struct stx_diag *d)
{
	memset(out, 0, sizeof *out);
	out->fd = -1;
	uint8_t *buf = malloc(STX_FRAME_HEADER_MAX);
	if (!buf)
		return stx_fail(d, STX_E_NOMEM, "channel", "", "out of memory");
	stx_err err = STX_E_OK;
	size_t off = 0;
	ssize_t n = stx_packet_recv(sock, buf, STX_FRAME_HEADER_MAX, &out->fd);
	if (n < 0 && errno == EAGAIN) {
		err = STX_E_BUSY;
		goto fail;
	}
	if (n < 0 && errno == EMSGSIZE) {
		err = stx_fail(d, STX_E_PROTOCOL, "channel", "", "a message that is cut off");
		goto fail;
	}
	if (n <= 0) {
		err = stx_fail(d, STX_E_CONNECT, "channel", "", "the other side is gone");
		goto fail;
	}
	size_t most = how == STX__COPIED ? STX__JOB_BODY_MAX : STX__MEMFD_MAX;
	if (out->fd >= 0 && (err = stx__memfd_map(out->fd, most, how, &out->map, d)))
		goto fail;
	if (out->fd >= 0 && how == STX__COPIED) {
		close(out->fd);
		out->fd = -1;
	}
	struct stx_span body = { out->map.at, out->map.n };
	err = stx_frame_unpack_reply((struct stx_span){ buf, (size_t)n }, body, &out->e, &off, d);
	if (err)
		goto fail;
	out->body = (struct stx_span){ body.at + off, body.n - off };
	out->whole = out->fd >= 0 && off == 0;
	free(buf);
	return STX_E_OK;
fail:
	free(buf);
	stx__message_free(out);
	return err;
}

void stx__message_free(struct stx__message *m)
{
	stx__envelope__free_unpacked(m->e, NULL);
	stx__memfd_unmap(&m->map);
	if (m->fd >= 0)
		close(m->fd);
	memset(m, 0, sizeof *m);
	m->fd = -1;
}

struct stx__message stx__message_take(struct stx__message *m)
{
	struct stx__message taken = *m;
	memset(m, 0, sizeof *m);
	m->fd = -1;
	return taken;
}

int stx__message_take_fd(struct stx__message *m)
{
	if (!m->whole)
		return -1;
	int fd = m->fd;
	m->fd = -1;
	m->whole = 0;
	return fd;
}
