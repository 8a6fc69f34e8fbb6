#!/bin/sh
# Installs the program `hotshoe` of a release: downloads the archive of this platform, checks it against SHA256SUMS before
# it is unpacked, and replaces the program that is there only when the new one has run.
# Usage: install.sh [--version VERSION] [--to FOLDER] [--from FOLDER|URL]
#   --version VERSION  which version; the one that the release has, if nothing is said
#   --to FOLDER        where to put the program: ~/.local/bin, if nothing is said
#   --from FOLDER|URL  where the files of the release are
# Example: sh install.sh --to "$HOME/bin"
# Exit codes: 0 installed, 1 not installed, and what was there is as it was (stderr says why), 2 wrong arguments.
set -eu

# Where the release can be downloaded from: written by deploy/dist.sh.
releases=''

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; }

fail() {
    printf 'error: %s; nothing was installed\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

misused() {
    printf 'error: %s\n\n' "$1" >&2
    usage >&2
    exit 2
}

version=
to=
from=$releases
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --version | --to | --from)
        [ -n "${2:-}" ] || misused "$1 needs a value"
        case $1 in
        --version) version=${2#v} ;;
        --to) to=$2 ;;
        --from) from=${2%/} ;;
        esac
        shift 2
        ;;
    *) misused "$1 is no option" ;;
    esac
done
[ -n "$from" ] || misused 'this file knows no release: say where its files are with --from'
[ -n "$to" ] || to=${HOME:?HOME is not set: say where to install with --to}/.local/bin

system=$(uname -s)
machine=$(uname -m)
case $machine in
arm64 | aarch64) architecture=aarch64 ;;
x86_64 | amd64) architecture=x86_64 ;;
*) architecture=$machine ;;
esac
case $system in
Linux) platform=$architecture-unknown-linux-musl ;;
Darwin) platform=$architecture-apple-darwin ;;
*) platform=$architecture-$system ;;
esac

if command -v sha256sum >/dev/null; then
    digest_of() { sha256sum <"$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null; then
    digest_of() { shasum -a 256 <"$1" | cut -d ' ' -f 1; }
else
    fail 'neither sha256sum nor shasum is there to check what is downloaded' 'your PATH' 'install coreutils'
fi

mkdir -p "$to" || fail "$to cannot be created" "$to" 'name a folder that you may write with --to'
work=$(mktemp -d)
new=$to/.hotshoe.$$
trap 'rm -rf "$work" "$new"' EXIT
trap 'exit 1' HUP INT TERM

# Gets a file of the release. Usage: get NAME
get() {
    case $from in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl --fail --silent --show-error --location --output "$work/$1" "$from/$1"
        elif command -v wget >/dev/null; then
            wget --quiet --output-document "$work/$1" "$from/$1"
        else
            fail 'neither curl nor wget is there to download with' 'your PATH' 'install one of them'
        fi
        ;;
    *) cp "${from#file://}/$1" "$work/$1" ;;
    esac || fail "$1 cannot be had" "$from" 'check the address, your proxy (HTTPS_PROXY), and that the release has this file'
}

get SHA256SUMS
# Of several versions in one place, the newest.
archives=$(sed -n "s/^[0-9a-f]\{64\}[ *]*\(hotshoe-[0-9][^ /]*\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
archive=$(printf '%s\n' "$archives" | grep -e "^hotshoe-${version:-[0-9].*}-$platform\.tar\.gz\$" | sort -V | tail -n 1) || true
[ -n "$archive" ] || fail "there is no hotshoe${version:+ $version} for $platform ($system on $machine)" "$from/SHA256SUMS" \
    "the release has: $(printf '%s' "$archives" | tr '\n' ' ')"
expected=$(sed -n "s/^\([0-9a-f]\{64\}\)[ *]*$archive$/\1/p" "$work/SHA256SUMS")

get "$archive"
found=$(digest_of "$work/$archive")
[ "$found" = "$expected" ] || fail "$archive is not the file of the release: its SHA-256 is $found, not $expected" "$from/$archive" \
    'download it again; if that does not help, the file was changed after it was released: do not use it'

{ tar -xzf "$work/$archive" -C "$work" && cp "$work/${archive%.tar.gz}/hotshoe" "$new" && chmod 755 "$new"; } ||
    fail "$archive cannot be unpacked" "$from/$archive" 'the release is broken, or there is no space: read what is said above'
said=$("$new" --version) || fail "the program of $archive does not run here" "$new" 'read what is said above'
mv -f "$new" "$to/hotshoe"

echo "installed $said for $platform as $to/hotshoe"
case :${PATH:-}: in
*:"$to":*) ;;
*) echo "it is not on your PATH yet: export PATH=\"$to:\$PATH\"" ;;
esac
