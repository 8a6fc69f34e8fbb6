# shellcheck shell=bash disable=SC2034 # what sources it reads its variables
# Sourced by scripts that need to know where a host with these options listens: $address is that address, and $files how
# the paths of its files begin. They are named after the port, so that two hosts of a checkout do not write into the
# same ones; on the default port they are target/run/hotshoe.log, hotshoe.pid and so on.
# Usage: . deploy/listen.sh [option of `hotshoe run`…]
# Example: . deploy/listen.sh --listen 127.0.0.1:8081   ($files is …/target/run/hotshoe-8081)

address=${HOTSHOE_LISTEN:-127.0.0.1:8080}
while [ $# -gt 0 ]; do
    case $1 in
    --listen) address=${2:-$address} ;;
    --listen=*) address=${1#*=} ;;
    esac
    shift
done
files=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/run/hotshoe
[ "${address##*:}" = 8080 ] || files+=-${address##*:}
