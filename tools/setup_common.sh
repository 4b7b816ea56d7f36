# shellcheck shell=bash
# Shared by the set-up scripts: progress lines on the screen, the noise of pip and apt in a log file.

say() { printf '%s\n' "setup: $*"; }

# quietly WHAT COMMAND... – run COMMAND with its output in the log; show the end of it if it fails.
quietly() {
    local what=$1 log
    shift
    log=$(mktemp -t ackwire-setup.XXXXXX)
    say "$what"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        say "failed: $* (whole log: $log)"
        tail -n 25 "$log" >&2
        return 1
    fi
    rm -f "$log"
}

# require_compiler VENV – a C compiler and Python's headers are there, or are installed now.
require_compiler() {
    local header='import pathlib, sysconfig as s; assert pathlib.Path(s.get_path("include"), "Python.h").exists()'
    if ! command -v cc >/dev/null || ! "$1/bin/python" -c "$header" 2>/dev/null; then
        tools/debian_packages.sh gcc libc6-dev python3-dev
    fi
}
