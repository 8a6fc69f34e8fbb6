#!/usr/bin/env bash
# Runs recipes one after the other. At the end prints how long each took (also into target/stages.txt), and the failed
# assertions, which are hard to find in a long log. Two builds take the processor time that others leave: that of the
# control plane, by Go, beside the first recipes, and that of the unit tests beside the end-to-end tests, which mostly wait.
# What came of a build shows at its own stage. The unit tests themselves have deadlines, and run alone.
# Usage: tests/stages.sh RECIPE…
# Example: tests/stages.sh fmt-check test-core
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p target
log=target/control-plane.log
rm -f target/stage.log

lowest=(nice -n 19)
! chrt --idle 0 true 2>/dev/null || lowest+=(chrt --idle 0)
groups=()

# Runs a command beside the recipes, until this script ends.
beside() {
    set -m
    "$@" & groups+=($!)
    set +m
    trap end_groups EXIT
}

end_groups() {
    local group
    for group in "${groups[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}

# The output is not shown: what failed fails again at the stage.
build_units() {
    # Cargo builds one thing at a time in a folder, and what the end-to-end tests need is built until they run.
    until grep -qs 'Running.* tests/e2e/main.rs' target/stage.log; do sleep 1; done
    "${lowest[@]}" "${HOTSHOE_JUST:-just}" --justfile justfile t --no-run
}

case " $* " in *" control-plane "*) beside "${lowest[@]}" tests/control-plane/build.sh >$log 2>&1 ;; esac

# On a terminal, recipes keep their progress bars, and their output is not copied.
copy=/dev/null
run() {
    if [ -t 1 ]; then "$@"; else copy=target/stage.log; "$@" 2>&1 | tee $copy; fi
}

table=
for name in "$@"; do
    printf '\n━━━ just %s\n' "$name"
    began=$SECONDS
    case $name in
    control-plane) wait "${groups[0]}" || true; cat $log ;;
    test-e2e) beside build_units >/dev/null 2>&1 ;;
    esac
    run "${HOTSHOE_JUST:-just}" --justfile justfile "$name" && result=ok || result=FAILED
    table+=$(printf '%-16s %5d s  %s' "$name" $((SECONDS - began)) "$result")$'\n'
    [ "$result" = ok ] || break
done
printf '%-16s %5d s\n%s' total $SECONDS "$table" >target/stages.txt
printf '\n━━━\n'
[ "$result" = ok ] || grep --text -A2 ' panicked at ' $copy | cut -c 1-600 || true
cat target/stages.txt
[ "$result" = ok ]
