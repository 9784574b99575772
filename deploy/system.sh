#!/bin/sh
# Installs what is missing of the Debian packages behind these words:
#     deploy/system.sh make venv chromium fonts keywords
# Needs root and apt-get; without them it says what to install. Installs nothing that is there.
set -eu

missing=
for word in "$@"; do
    case $word in
        make) command -v make >/dev/null || missing="$missing make" ;;
        venv) python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv" ;;
        chromium)
            command -v chromium >/dev/null || missing="$missing chromium fonts-liberation"
            # Playwright's driver wants it, and a minimal Debian has none.
            ls /usr/lib/*/libatomic.so.1 >/dev/null 2>&1 || missing="$missing libatomic1"
            ;;
        fonts)
            [ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] ||
                missing="$missing fonts-noto-color-emoji"
            ;;
        keywords) # Unicode's words for the glyphs
            [ -e /usr/share/unicode/cldr/common/annotations/en.xml ] ||
                missing="$missing unicode-cldr-core"
            ;;
        *)
            echo "deploy/system.sh: unknown word: $word" >&2
            exit 2
            ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing:$missing. On Debian: sudo apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
echo "Installing$missing"
install() {
    # shellcheck disable=SC2086 (several words)
    apt-get install -y -qq --no-install-recommends $missing </dev/null >"$log" 2>&1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists are fetched only where the install does not work with those that are there.
install || { apt-get update -qq </dev/null && install; } || {
    cat "$log" >&2
    exit 1
}
