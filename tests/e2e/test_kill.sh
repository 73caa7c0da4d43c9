#!/usr/bin/env bash
# kill -9 of the daemon in a loop of restarts while clients compile ($KILL_ROUNDS, default 50).
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
"$build/tests/e2e/kill_loop" "${KILL_ROUNDS:-50}" ${STAX_TEST_SEED:+"$STAX_TEST_SEED"}
