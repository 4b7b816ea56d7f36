#!/usr/bin/env bash
# wheels.sh VENV DIST – build two wheels into the folder DIST: pure Python for clients, compiled for brokers.
#
# pip prefers the compiled one where it fits the platform and the Python version: pip install --find-links DIST ackwire
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/setup_common.sh
source tools/setup_common.sh
venv=$1 dist=$2

build() { # COMPILE
    rm -rf build/lib build/lib.* build/bdist.* # modules that are gone would be packed, too
    ACKWIRE_COMPILE=$1 "$venv/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-deps \
        --no-build-isolation --wheel-dir "$dist" .
}

require_compiler "$venv"
rm -rf "$dist"
quietly "building the pure wheel" build 0
quietly "building the compiled wheel (a few minutes)" build 1
ls "$dist"
