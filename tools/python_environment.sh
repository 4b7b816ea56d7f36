#!/usr/bin/env bash
# Make .venv as the lock file says: tools/python_environment.sh VENV LOCK
#
# Takes $PYTHON, or the first Python of at least 3.11 that it finds, and on Debian installs one if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/setup_common.sh
source tools/setup_common.sh
venv=$1 lock=$2

is_usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        if is_usable "$name"; then
            echo "$name"
            return
        fi
    done
    return 1
}

if ! is_usable "$venv/bin/python"; then
    python=$(find_python) || {
        tools/debian_packages.sh python3 python3-venv
        python=$(find_python) || { say "no Python 3.11 or later found; name one: make PYTHON=/path/to/python3"; exit 1; }
    }
    # Debian keeps the half of venv that brings pip in a package of its own.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || tools/debian_packages.sh python3-venv
    rm -rf "$venv"
    quietly "making $venv with $("$python" --version)" "$python" -m venv "$venv"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
quietly "installing Python packages from $lock" pip install --require-hashes -r "$lock"
quietly "installing ackwire itself, from this tree" pip install --no-deps --no-build-isolation -e .
