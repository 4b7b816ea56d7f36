#!/usr/bin/env bash
# Install the Debian packages named as arguments, unless they are there: tools/debian_packages.sh NAME...
#
# The name `jdk` stands for a Java compiler, version 11 or later, wherever it comes from; Debian's
# default-jdk-headless is installed only without one. Asks apt for nothing when nothing is missing.
set -euo pipefail
# shellcheck source=tools/setup_common.sh
source "$(dirname "$0")/setup_common.sh"

JDK_VERSION_MIN=11

has_jdk() {
    local version # "javac 17.0.15"; before 9 it was "javac 1.8.0_292"
    version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p') || true
    [ "${version:-0}" -ge "$JDK_VERSION_MIN" ]
}

has_package() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for name in "$@"; do
    if [ "$name" = jdk ]; then
        has_jdk || missing+=(default-jdk-headless)
    else
        has_package "$name" || missing+=("$name")
    fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    say "missing: ${missing[*]}"
    say "these are Debian's package names, and there is no apt-get here: please install their likes by hand"
    exit 1
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        say "missing: ${missing[*]}"
        say "please install them as root: apt-get install ${missing[*]}"
        exit 1
    fi
    sudo -v # ask for the password here, where it can be seen
    root=(sudo)
fi

apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }
install() { quietly "installing Debian packages: ${missing[*]}" apt install -y --no-install-recommends "${missing[@]}"; }

# A server that is installed here (RabbitMQ) is run by us, with data and ports of its own, and not as a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '"${root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
fi

# Empty lists: update first. Old lists: a version they name may be gone, so update and try once more.
known=$(apt-cache policy "${missing[@]}" 2>/dev/null | sed -n '/Candidate: [^(]/p')
if [ -z "$known" ]; then
    quietly "reading Debian's package lists" apt update
    install
else
    install || { quietly "reading Debian's package lists again" apt update && install; }
fi
