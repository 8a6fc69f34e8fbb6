#!/usr/bin/env bash
# Makes what a release consists of, from what `just build` built. It needs no network once `--tools` has installed the tools.
#   program  hotshoe-VERSION-PLATFORM.tar.gz: the program with its manual pages and completions, README and LICENSE; and
#            install.sh, which installs it
#   image    hotshoe-image-VERSION-PLATFORM.oci.tar: an OCI layout of two images with these tags: VERSION, which has the
#            host alone, and VERSION-plugins, which has the plugins of this repository too
#   sdk      the SDKs as crates, as a wheel and as a package of npm, of the files that `hotshoe new` writes into a project
#   chart    hotshoe-VERSION.tgz: the Helm chart
#   book     hotshoe-book-VERSION.tar.gz
#   bill     hotshoe-VERSION-PLATFORM.cdx.json: what the program is made of (CycloneDX)
#   sums     SHA256SUMS of all files in the folder, which is written after the other parts in any case
# The same commit gives the same bytes with the same tools.
# Usage: deploy/dist.sh [--out FOLDER] [--tools] [PART…]     all parts into target/dist, if nothing is said
#   --tools  only install what makes these parts: the one step that needs a network
# Example: deploy/dist.sh --out target/parts program image
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/recipes.sh
. deploy/recipes.sh

out=target/dist
all=(program image sdk chart book bill sums)
mdbook=0.5.4
parts=()
tools_only=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --tools) tools_only=yes ;;
    --out) out=${2:?--out needs a folder} && shift ;;
    *) [[ " ${all[*]} " == *" $1 "* ]] || stop 2 "$1 is no part of a release" 'your command line' "name one of: ${all[*]}" && parts+=("$1") ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")

# Installs what makes a part, unless it is installed. Usage: install_tools PART
install_tools() {
    case $1 in
    sdk) plugins/install-python.sh ;;
    chart) tests/helm.sh ;;
    book) install_mdbook $mdbook ;;
    # Unoptimised: it runs for a second only.
    bill) CARGO_PROFILE_RELEASE_OPT_LEVEL=0 install_tool cargo-cyclonedx 'a minute' ;;
    esac
}
for part in "${parts[@]}"; do install_tools "$part"; done
if [ -n "$tools_only" ]; then
    # A build has only the crates of its own platform, and the list of crates may ask for others.
    cargo fetch --quiet --locked
    exit 0
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints what was made. Usage: made FILE
made() { printf '%-58s %9d bytes\n' "${1##*/}" "$(wc -c <"$1")"; }

write_sums() {
    (cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | LC_ALL=C sort | xargs -r sha256sum) >"$work/sums"
    mv "$work/sums" "$out/SHA256SUMS"
    made "$out/SHA256SUMS"
}

if [ "${parts[*]}" = sums ]; then
    write_sums
    exit 0
fi
[ -x target/release/hotshoe ] || stop 1 'there is no program, so nothing was packed' target/release/hotshoe '`./justw dist` builds it first'
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[[ $(hotshoe --version) == "hotshoe $version" ]] ||
    stop 1 "the program is $(hotshoe --version), and the sources are of $version; nothing was packed" target/release/hotshoe '`./justw dist` builds it first'
[ ${#parts[@]} -lt ${#all[@]} ] || [ ! -e "$out/SHA256SUMS" ] || (cd "$out" && sed 's/^[0-9a-f]* [ *]//' SHA256SUMS | xargs rm -f) # of an earlier version, perhaps
machine=$(uname -m)
case $(uname -s) in
Linux) platform=${machine/arm64/aarch64}-unknown-linux-musl ;;
*) platform=$(rustc -vV | sed -n 's/^host: //p') ;;
esac
# The time of all files: that of the commit.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"

# Packs what is in a folder, the same way each time. Usage: pack FOLDER NAME… >FILE
pack() { tar --create --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --directory "$@"; }

# Lays out the files of the image, once; the program of the release is the one in there.
lay_out() { [ -e "$work/root" ] || deploy/image-root.sh "$work/root"; }

make_program() {
    local name=hotshoe-$version-$platform folder=$work/program
    lay_out
    mkdir -p "$folder/$name/completions"
    cp README.md LICENSE "$work/root/hotshoe" "$folder/$name"
    chmod 755 "$folder/$name/hotshoe"
    hotshoe man-pages "$folder/$name/man/man1"
    hotshoe completion bash >"$folder/$name/completions/hotshoe.bash"
    hotshoe completion zsh >"$folder/$name/completions/_hotshoe"
    hotshoe completion fish >"$folder/$name/completions/hotshoe.fish"
    pack "$folder" "$name" | gzip -n >"$out/$name.tar.gz"
    made "$out/$name.tar.gz"
    # Where this release can be downloaded is written into it, if that is known here.
    sed "s|^releases=.*|releases='${HOTSHOE_RELEASES:-}'|" deploy/install.sh >"$out/install.sh"
    chmod 755 "$out/install.sh"
    made "$out/install.sh"
}

# === the image ===

layout=$work/layout

# Moves a file among the blobs of the layout, and prints what describes it, with more members perhaps.
# Usage: blob FILE MEDIA_TYPE [,"MEMBER":VALUE…]
blob() {
    local digest
    digest=$(sha256sum "$1" | cut -d ' ' -f 1)
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d%s}' "$2" "$digest" "$(wc -c <"$1")" "${3:-}"
    mv "$1" "$layout/blobs/sha256/$digest"
}

# Adds a layer, described by $layer_NAME, with the digest of its content in $content_NAME. Usage: layer NAME FILE…
layer() {
    local file=$work/layer.tar
    pack "$work/root" "${@:2}" >"$file"
    declare -g "content_$1=sha256:$(sha256sum "$file" | cut -d ' ' -f 1)"
    gzip -n "$file"
    declare -g "layer_$1=$(blob "$file.gz" layer.v1.tar+gzip)"
}

# Adds an image, and prints what describes it. Usage: image TAG COMMAND LAYERS CONTENTS
image() {
    local created architecture=${machine/x86_64/amd64} config
    architecture=${architecture/aarch64/arm64}
    created=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    cat >"$work/config" <<END
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"65532:65532","ExposedPorts":{"8080/tcp":{},"8081/tcp":{}},\
"Entrypoint":["/hotshoe"],"Cmd":$2,"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"hotshoe","org.opencontainers.image.version":"$version",\
"org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":[$4]}}
END
    config=$(blob "$work/config" config.v1+json)
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' "$config" "$3" >"$work/manifest"
    blob "$work/manifest" manifest.v1+json \
        ",\"platform\":{\"architecture\":\"$architecture\",\"os\":\"linux\"},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$1\"}"
}

make_image() {
    local name=hotshoe-image-$version-$platform.oci.tar alone with_plugins
    lay_out
    rm -rf "$layout"
    mkdir -p "$layout/blobs/sha256"
    layer host --no-recursion hotshoe plugins
    layer plugins plugins
    # shellcheck disable=SC2154 # `layer` sets them
    {
        alone=$(image "$version" '["run"]' "$layer_host" "\"$content_host\"")
        with_plugins=$(image "$version-plugins" '["run","/plugins/memcached"]' "$layer_host,$layer_plugins" "\"$content_host\",\"$content_plugins\"")
    }
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s,%s]}' "$alone" "$with_plugins" >"$layout/index.json"
    pack "$layout" oci-layout index.json blobs >"$out/$name"
    made "$out/$name"
    sed -n 's/.*"size":\([0-9]*\).*/\1/p' <<<"$layer_host" |
        awk '{ printf "  the image with the host alone is %.1f MB compressed, of 25 MB at most\n", $1 / 1e6 }'
}

# === the SDKs ===

make_sdk() {
    local language vendor=$work/sdk/vendor file
    mkdir "$work/sdk"
    for language in rust python js; do
        (cd "$work/sdk" && "$OLDPWD/target/release/hotshoe" new "of-$language" --lang "$language" --domain example.com >/dev/null 2>"$work/said") ||
            { cat "$work/said" >&2 && stop 1 "hotshoe new wrote no SDK for $language, so none was packed"; }
    done
    for file in sdk crd; do cp LICENSE "$vendor/hotshoe-sdk/$file"; done
    # What it depends on is asked for when it is compiled, which the tests do.
    cargo package --quiet --manifest-path "$vendor/hotshoe-sdk/Cargo.toml" --target-dir "$work/crates" --workspace --no-verify --offline --exclude-lockfile
    target/tools/python/bin/python -m pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
        --wheel-dir "$work/packages" "$vendor/hotshoe-sdk-python"
    npm pack --silent --offline --pack-destination "$work/packages" "$vendor/hotshoe-sdk-js" >/dev/null
    for file in "$work"/crates/package/*.crate "$work"/packages/*; do
        mv "$file" "$out"
        made "$out/${file##*/}"
    done
}

# === the others ===

make_chart() {
    target/tools/bin/helm package deploy/chart/hotshoe --destination "$work/chart" >/dev/null
    # Packed again, for Helm keeps the times of the files.
    tar --extract --file "$work/chart/hotshoe-$version.tgz" --directory "$work/chart" ||
        stop 1 'the version of the chart is not that of the host, so the chart was not packed' deploy/chart/hotshoe/Chart.yaml "write $version there"
    pack "$work/chart" hotshoe | gzip -n >"$out/hotshoe-$version.tgz"
    made "$out/hotshoe-$version.tgz"
}

make_book() {
    build_book $mdbook >/dev/null
    pack target book | gzip -n >"$out/hotshoe-book-$version.tar.gz"
    made "$out/hotshoe-book-$version.tar.gz"
}

make_bill() {
    local name=hotshoe-$version-$platform.cdx
    # It writes a file beside the manifest of each crate, so it is given a copy of them all.
    mkdir "$work/sources"
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory "$work/sources"
    cargo cyclonedx --quiet --manifest-path "$work/sources/host/hotshoe/Cargo.toml" --format json --spec-version 1.5 --target "$platform" --override-filename "$name"
    sed "s|file://$work/sources/|file:///|g" "$work/sources/host/hotshoe/$name.json" >"$out/$name.json" # where it lies is not part of it
    made "$out/$name.json"
}

make_sums() { :; } # as after any part

for part in "${parts[@]}"; do "make_$part"; done
write_sums
