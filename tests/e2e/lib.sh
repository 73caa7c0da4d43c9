# lib.sh: shared by end-to-end scripts: a private daemon in a folder of its own, checks, the closing line.
build=${STAX_BUILD:-$PWD/build}
work=$(mktemp -d "${TMPDIR:-/tmp}/stax-e2e.XXXXXX")
daemon_pid=
passed=0 failed=0 skipped=0
export STAX_CACHE_DIR=$work/cache XDG_RUNTIME_DIR=$work/run XDG_CACHE_HOME=$work/xdg
export STAX_SERVER=unix:$work/stax.sock
mkdir -p "$work/cache" "$work/run" "$work/xdg"
chmod 700 "$work/cache" "$work/run"

stop_daemon() {
  [ -n "$daemon_pid" ] || return 0
  kill -TERM "$daemon_pid" 2>/dev/null
  wait "$daemon_pid" 2>/dev/null
  daemon_rc=$?
  daemon_pid=
  no_report
}
# A client may never see what a sanitizer finds in the daemon, its workers or its end.
no_report() {
  grep -qaE 'ERROR: [A-Za-z]*Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$work"/*.log 2>/dev/null || return 0
  failed=$((failed + 1))
  echo "FAILED: reports of a sanitizer:"
  grep -ahE -A 30 'Sanitizer|runtime error:' "$work"/*.log | head -n 80
}
cleanup() {
  stop_daemon
  rm -rf "$work"
}
trap cleanup EXIT

# start_daemon [ARGS...]: waits until it answers
# Loading NVRTC costs each worker a tenth of a second: only tests of CUDA targets want it.
export STAX_CUDA=${STAX_CUDA:-0}

start_daemon() {
  "$build/staxd" --listen "unix:$work/stax.sock" --cache-dir "$work/cache" --workers 2 "$@" \
    >"$work/staxd.log" 2>&1 &
  daemon_pid=$!
  for _ in $(seq 2400); do
    "$build/stax" ping >/dev/null 2>&1 && return 0
    kill -0 "$daemon_pid" 2>/dev/null || break
    sleep 0.05
  done
  echo "staxd did not start:"
  tail -n 20 "$work/staxd.log"
  return 1
}
ok() { # description command...
  local what=$1
  shift
  if "$@" >"$work/out" 2>"$work/err"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what: $* (exit $?)"
    tail -n 15 "$work/out" "$work/err"
  fi
}
# exits CODE description command...: the exit code must be exactly CODE
exits() {
  local want=$1 what=$2 rc
  shift 2
  "$@" >"$work/out" 2>"$work/err"
  rc=$?
  if [ $rc = "$want" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what: exit $rc, want $want: $*"
    tail -n 15 "$work/out" "$work/err"
  fi
}
says() { # description pattern: in the output or errors of the last command
  if grep -qE -- "$2" "$work/out" "$work/err"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $1: '$2' not found in:"
    tail -n 15 "$work/out" "$work/err"
  fi
}
tells() { # description pattern command...: the output has the pattern
  local what=$1 pattern=$2
  shift 2
  if "$@" >"$work/out" 2>"$work/err" && grep -qE -- "$pattern" "$work/out"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $what: no '$pattern' of $*"
    tail -n 15 "$work/out" "$work/err"
  fi
}
# field NAME [N]: the value of the N-th field of that name (1) in $work/json
field() { grep -oE "\"$1\":(\"[^\"]*\"|[0-9.]+|true|false)" "$work/json" | head -"${2:-1}" | tail -1 | sed -E 's/^"[^"]*"://; s/"//g'; }
finish() {
  stop_daemon
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ]
}
