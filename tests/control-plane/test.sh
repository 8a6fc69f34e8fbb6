#!/bin/sh
# Builds the control plane if need be and runs its tests: up, down, every component stopped and
# started, garbage collection, volumes, RBAC, Pod Security, the audit log, and all that must be left
# behind by a crash, which is nothing. Under 90 seconds once built. Takes arguments of `go test`.
# Example: tests/control-plane/test.sh -run Audit -v
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
"$here/build.sh"
cd "$here"
# The settings of build.sh, or Go would compile all of Kubernetes a second time. No vet for the
# same reason: it reads every dependency.
export CGO_ENABLED=0 GOFLAGS=-trimpath
exec go test -count=1 -vet=off "$@" ./...
