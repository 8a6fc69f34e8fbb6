# shellcheck shell=sh
# What the scripts of the tests have in common. A script sources this file with its own arguments: with --help it prints the
# comment at its top, and ends.
# Usage: . tests/script.sh

# Prints the comment at the top of the script.
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; }

# Usage: fail WHAT WHERE NEXT
fail() {
    printf 'error: %s\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

# Fails without Go, and waits for another build of the same program. What is built runs on this machine, whatever is being
# built for elsewhere, and needs no C compiler. The compiler collects its garbage seldom, which saves time.
# Usage: begin_go FILE_TO_LOCK WHAT_IS_BUILT
begin_go() {
    command -v go >/dev/null || fail 'Go is not installed' 'your PATH' 'install Go 1.26 or newer from https://go.dev/dl'
    mkdir -p "$(dirname "$1")"
    exec 9>"$1"
    flock -n 9 || {
        echo "another build of $2 runs; waiting for it" >&2
        flock 9
    }
    unset GOFLAGS GOOS GOARCH
    export CGO_ENABLED=0 GOGC="${GOGC:-400}"
}

# Fails because Go did. Usage: fail_go WHAT WHERE
fail_go() {
    fail "$1 does not compile" "$2" 'read what Go says above; on a new machine, check that the Go module proxy can be reached (go env GOPROXY)'
}

case "${1:-}" in
-h | --help)
    usage
    exit 0
    ;;
esac
