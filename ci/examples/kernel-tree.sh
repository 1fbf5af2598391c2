#!/usr/bin/env bash
# Gates a kernel tree on the kernel before: boots both, and tells which claims about small TCP writes differ.
#
#   kernel-tree.sh OLD-BZIMAGE NEW-BZIMAGE     two images, compared
#   kernel-tree.sh                             on the running kernel, as a selftest: KTAP and the codes 0, 1, 4
#
# With images it wants a checkout of smallwrites in $SMALLWRITES for ci/kernels (QEMU; no root, no KVM). Without them the
# static program of ci/static is enough, copied into the guest as $SMALLWRITES/smallwrites or on the PATH.
#
# Exit status: 0 nothing differs, 1 a verdict or a count does, 2 bad arguments or files, 3 a kernel did not boot.
set -euo pipefail

case $# in
0)
    program=smallwrites
    [ -z "${SMALLWRITES:-}" ] || program=$SMALLWRITES/smallwrites
    exec "$program" verify --kselftest
    ;;
2) ;;
*)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
    ;;
esac

checkout=${SMALLWRITES:?names a checkout of smallwrites, for its ci/kernels}
program=$("$checkout/ci/static" "$(uname -m)" | cut -f1)
export KERNELS_CACHE=${KERNELS_CACHE:-$(mktemp -d)}

# A claim that fails on both kernels is no difference, so a status of 1 here is not the gate's.
status=0
"$checkout/ci/kernels" --program "$program" "old=$1" "new=$2" || status=$?
[ "$status" -le 1 ] || exit "$status"

reports=$KERNELS_CACHE/reports
"$program" compare "$reports/old.json" "$reports/new.json" --format html --out small-writes.html || true
exec "$program" compare "$reports/old.json" "$reports/new.json"
