#!/bin/sh
# Installs Debian's Chromium for the browser tests when no browser is on the PATH.
set -eu

for name in "${BLOG_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

how='install Chromium (Debian: apt-get install chromium) or point BLOG_BROWSER at a browser of its kind'
if ! command -v apt-get >/dev/null 2>&1; then
    echo "no browser found and no apt-get to install one: $how" >&2
    exit 1
fi
as_root=''
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "no browser found and no rights to install one: $how" >&2
        exit 1
    fi
    as_root='sudo -n'
fi
install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
}
echo 'installing Chromium'
install || { $as_root apt-get update -qq && install; } || {
    echo "Chromium could not be installed: $how" >&2
    exit 1
}
