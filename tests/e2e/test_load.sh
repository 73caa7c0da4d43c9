#!/usr/bin/env bash
# 200 concurrent clients, 10,000 mixed requests: no error, one compile a distinct key.
set -u
cd "$(dirname "$0")/../.."
. tests/e2e/lib.sh
ulimit -n 4096
start_daemon || exit 1
"$build/tests/e2e/load" 200 10000 60
rc=$?
stop_daemon
[ "$failed" = 0 ] || rc=1
[ "${daemon_rc:-1}" = 0 ] || { echo "staxd ended with status $daemon_rc"; tail -n 20 "$work/staxd.log"; rc=1; }
exit $rc
