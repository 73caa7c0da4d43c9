/* hash.c: SHA-256 through OpenSSL's EVP interface. */
#include "hash.h"

#include <openssl/evp.h>
#include <stdlib.h>

/* EVP_MD_CTX is the state; the algorithm object is fetched once by OpenSSL itself. */
struct stx_hasher *stx_hasher_new(void)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	if (c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(c);
		c = NULL;
	}
	return (struct stx_hasher *)c;
}

void stx_hasher_update(struct stx_hasher *h, const void *p, size_t n)
{
	if (n)
		EVP_DigestUpdate((EVP_MD_CTX *)h, p, n);
}

void stx_hasher_u64(struct stx_hasher *h, uint64_t v)
{
	EVP_DigestUpdate((EVP_MD_CTX *)h, &v, sizeof v);
}

void stx_hasher_str(struct stx_hasher *h, const char *s)
{
	size_t n = strlen(s);
	stx_hasher_u64(h, n);
	stx_hasher_update(h, s, n);
}

struct stx_digest stx_hasher_final(struct stx_hasher *h)
{
	struct stx_digest d;
	unsigned n = sizeof d.b;
	EVP_DigestFinal_ex((EVP_MD_CTX *)h, d.b, &n);
	EVP_MD_CTX_free((EVP_MD_CTX *)h);
	return d;
}

void stx_hasher_drop(struct stx_hasher *h)
{
	EVP_MD_CTX_free((EVP_MD_CTX *)h);
}

struct stx_digest stx_digest_of(const void *p, size_t n)
{
	struct stx_digest d;
	unsigned len = sizeof d.b;
	EVP_Digest(n ? p : "", n, d.b, &len, EVP_sha256(), NULL);
	return d;
}

void stx_digest_hex(const struct stx_digest *d, char out[STX_DIGEST_HEX])
{
	static const char digits[] = "0123456789abcdef";
	for (int i = 0; i < STX_DIGEST_BYTES; i++) {
		out[2 * i] = digits[d->b[i] >> 4];
		out[2 * i + 1] = digits[d->b[i] & 15];
	}
	out[2 * STX_DIGEST_BYTES] = 0;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

stx_err stx_digest_parse(const char *hex, struct stx_digest *out)
{
	if (strlen(hex) != 2 * STX_DIGEST_BYTES)
		return STX_E_INVALID;
	for (int i = 0; i < STX_DIGEST_BYTES; i++) {
		int hi = hex_value(hex[2 * i]), lo = hex_value(hex[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return STX_E_INVALID;
		out->b[i] = (uint8_t)(hi << 4 | lo);
	}
	return STX_E_OK;
}
