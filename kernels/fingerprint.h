/* fingerprint.h
 * what the compiler really is: the objects mapped into this process that shape its output. */
#ifndef STX_FINGERPRINT_H
#define STX_FINGERPRINT_H

#include "hash.h"
#include "status.h"

/* SHA-256 over the Stax version, the LLVM version and, for this program and libLLVM as they are
 * mapped, the GNU build id (an object without one is hashed whole). Reads files: call before the
 * sandbox closes. */
stx_err stx_fingerprint_loaded(const char *llvm_version, struct stx_digest *out,
			       struct stx_diag *d);

#endif
