#!/usr/bin/env bash
# compiled_package.sh VENV TARGET – install the package into the folder TARGET as pip does it, hot modules compiled.
set -euo pipefail
source tools/setup_common.sh
venv=$1 target=$2

require_compiler "$venv"
rm -rf "$target"
ACKWIRE_COMPILE=1 quietly "compiling ackwire into $target (a few minutes)" \
    "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps --no-build-isolation --target "$target" .
