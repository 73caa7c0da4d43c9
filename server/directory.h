/* directory.h
 * making the private directories the daemon lives in. */
#ifndef STX_DIRECTORY_H
#define STX_DIRECTORY_H

#include "status.h"

/* Makes path and what is missing above it, each 0700. */
stx_err stx__directory_make(const char *path, struct stx_diag *d);
/* The same for everything above the last component. */
stx_err stx__directory_make_parent(const char *path, struct stx_diag *d);

#endif
