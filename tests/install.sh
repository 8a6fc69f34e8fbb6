#!/bin/sh
# Gets programs that tests need, where they are missing from the PATH.
#   docker-registry  the reference implementation of the distribution specification
#   skopeo           copies and inspects images
#   wget             downloads
#   prometheus       scrapes metrics, and says which alerts fire
#   promtool         checks rules and metrics; of the same package
#   chromium-headless-shell  a browser without windows
# They are Debian's or Ubuntu's packages, unpacked into target/tools/FOLDER: that takes no root, and starts no service.
# Usage: tests/install.sh FOLDER PROGRAM…
# Example: tests/install.sh registry docker-registry skopeo
# Exit codes: 0 all are there, 1 not installed (stderr says why), 2 wrong arguments.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tests/script.sh
. "$root/tests/script.sh"
[ $# -ge 2 ] || {
    usage >&2
    exit 2
}
tools=$root/target/tools/$1
shift

missing=
packages=
for program in "$@"; do
    ! command -v "$program" >/dev/null && [ ! -x "$tools/bin/$program" ] || continue
    # Another browser will do. Ubuntu has no such package.
    if [ "$program" = chromium-headless-shell ]; then
        ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null || continue
    fi
    missing="$missing $program"
    case $program in
    promtool) packages="$packages prometheus" ;;
    *) packages="$packages $program" ;;
    esac
done
[ -n "$missing" ] || exit 0

by_hand="install$missing, for example with: sudo apt-get install --no-install-recommends$packages"
for program in apt-get dpkg-deb; do
    command -v $program >/dev/null || fail "tests need$missing, and there is no $program" 'your PATH' "$by_hand"
done

echo "unpacking$missing into target/tools/${tools##*/}, once" >&2
mkdir -p "$tools/bin" "$tools/apt/lists/partial" "$tools/apt/cache/archives/partial"
log=$tools/apt/log
cd "$tools/apt"

# Downloads what is missing, with what that depends on and this machine lacks, by these lists of packages.
download() {
    needed=$(apt-get "$@" --simulate --no-install-recommends install $packages | sed -n 's/^Inst \([^ ]*\) .*/\1/p') &&
        [ -n "$needed" ] && apt-get "$@" download $needed
}

{
    download -o "Dir::Cache=$tools/apt/cache" || {
        # The machine's lists are of another day, or it has none; they are root's to renew.
        own="-o Dir::State::lists=$tools/apt/lists -o Dir::Cache=$tools/apt/cache -o APT::Sandbox::User=root"
        apt-get $own update && download $own
    }
} >"$log" 2>&1 || {
    cat "$log" >&2
    fail "apt-get does not download$missing" 'its output above' "check that the mirror can be reached, or $by_hand"
}
for package in ./*.deb; do
    dpkg-deb --extract "$package" "$tools"
done
for program in $missing; do
    executable=$tools/usr/bin/$program
    # That of Chromium is a script, which begins a program by its path on a machine with the package.
    [ ! -x "$tools/usr/lib/chromium/$program" ] || executable=$tools/usr/lib/chromium/$program
    # With the libraries that were unpacked beside it.
    cat >"$tools/bin/.$program" <<END
#!/bin/sh
libraries=\$(echo "$tools"/usr/lib/*-linux-gnu "$tools"/lib/*-linux-gnu "$tools"/usr/lib/*-linux-gnu/pulseaudio | tr ' ' :)
LD_LIBRARY_PATH=\$libraries exec "$executable" "\$@"
END
    chmod +x "$tools/bin/.$program"
    "$tools/bin/.$program" --version >/dev/null || fail "$program does not run" "$tools/usr/bin" "$by_hand"
    mv "$tools/bin/.$program" "$tools/bin/$program"
done
rm -rf "$tools/apt"
