#!/usr/bin/env bash
# Runs recipes one after the other. At the end prints how long each took (also into target/stages.txt), and the failed
# assertions, which are hard to find in a long log. The control plane, the validator of bundles and Helm, which are built with
# Go, are built in the processor time that the first recipes leave; the output of their builds is shown at the stage of the
# control plane.
# Usage: tests/stages.sh RECIPE…
# Example: tests/stages.sh fmt-check test-core
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p target
log=target/control-plane.log
case " $* " in *" control-plane "*)
    set -m
    nice -n 19 sh -c 'tests/control-plane/build.sh && tests/bundle.sh && tests/helm.sh' >$log 2>&1 & beside=$!
    set +m
    trap 'kill -- -$beside 2>/dev/null || true' EXIT
    ;;
esac

# On a terminal, recipes keep their progress bars, and their output is not copied.
copy=/dev/null
run() {
    if [ -t 1 ]; then "$@"; else copy=target/stage.log; "$@" 2>&1 | tee $copy; fi
}

table=
for name in "$@"; do
    printf '\n━━━ just %s\n' "$name"
    began=$SECONDS
    [ "$name" != control-plane ] || { wait "$beside" || true; cat $log; }
    run "${HOTSHOE_JUST:-just}" --justfile justfile "$name" && result=ok || result=FAILED
    table+=$(printf '%-16s %5d s  %s' "$name" $((SECONDS - began)) "$result")$'\n'
    [ "$result" = ok ] || break
done
printf '%-16s %5d s\n%s' total $SECONDS "$table" >target/stages.txt
printf '\n━━━\n'
[ "$result" = ok ] || grep --text -A2 ' panicked at ' $copy | cut -c 1-600 || true
cat target/stages.txt
[ "$result" = ok ]
