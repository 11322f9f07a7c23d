#!/usr/bin/env bash
# Opens every page of the console in a browser: accessibility in light and dark, 360 pixels, keys, no script, a proxy with
# a prefix, and no request to another host. Starts a gateway with simulated providers and stops it again.
#
#   bash tests/console/run.sh              all checks
#   bash tests/console/run.sh shots DIR    pictures of the pages, into DIR
#   bash tests/console/run.sh install      nothing but the installation
#   bash tests/console/run.sh readme       the pictures of the README, into docs/console, after MINUTES=5 of traffic
#
# Node and Debian's chromium-headless-shell are installed when they are missing and this runs as root; without a browser
# the checks are skipped with a message, unless CI is set. POINTSMAN_BINARY names a binary to check instead of building one.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

here=tests/console
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/console
mkdir -p "$work"

fail() {
    printf 'tests/console/run.sh: %s\n' "$*" >&2
    exit 1
}

browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        if command -v "$name"; then return; fi
    done
}

install_packages() {
    [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || return 0
    DEBIAN_FRONTEND=noninteractive apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

CONSOLE_BROWSER=${CONSOLE_BROWSER:-$(browser)}
if [[ -z $CONSOLE_BROWSER ]]; then
    install_packages chromium-headless-shell fonts-dejavu-core fonts-inter
    CONSOLE_BROWSER=$(browser)
fi
command -v npm >/dev/null || install_packages nodejs npm
if [[ -z $CONSOLE_BROWSER ]] || ! command -v npm >/dev/null; then
    [[ -z ${CI:-} ]] || fail "needs Node and Chromium"
    printf 'tests/console/run.sh: skipped, there is no Node or no Chromium here\n'
    exit 0
fi

cp "$here"/package.json "$here"/package-lock.json "$here"/*.mjs "$work/"
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
    (cd "$work" && npm ci --no-audit --no-fund --silent)
    cp "$here/package-lock.json" "$work/installed.json"
fi

if [[ ${1:-} == install ]]; then
    exit 0
fi
if [[ -z ${POINTSMAN_BINARY:-} ]]; then
    cargo build --locked --quiet
    POINTSMAN_BINARY=$target/debug/pointsman
fi
POINTSMAN_BINARY=$(realpath "$POINTSMAN_BINARY")
export POINTSMAN_BINARY CONSOLE_BROWSER

if [[ ${1:-} == shots ]]; then
    mkdir -p "${2:?names no directory}"
    exec node "$work/shots.mjs" "$(realpath "$2")"
fi
if [[ ${1:-} == readme ]]; then
    mkdir -p docs/console
    exec node "$work/readme.mjs" "$(realpath docs/console)"
fi
exec node "$work/checks.mjs"
