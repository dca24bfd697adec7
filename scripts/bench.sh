#!/bin/sh
# Runs every benchmark, with the peers that are installed beside it, and says
# what machine it was and how busy. docs/BENCHMARKS.md holds what it printed.
#
#   scripts/bench.sh [PATTERN]     only benchmarks that match
set -eu
cd "$(dirname "$0")/.."

pattern=${1:-.}
echo "machine: $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r)"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "peers: $(for p in bwrap runc docker runsc; do command -v "$p" >/dev/null && printf '%s ' "$p" || printf '(%s is not installed) ' "$p"; done)"
echo "binary: $(stat -c %s bin/glovebox | awk '{printf "%.1f MiB", $1/1048576}')"
go test -run '^$' -bench "$pattern" -benchtime "${BENCHTIME:-1s}" -timeout 30m ./... 2>&1 | grep -v -e '^ok' -e '^PASS' -e 'no test files'
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
