#!/bin/sh
# Runs every benchmark, with the peers that are installed beside it, and says
# what machine it was and how busy. docs/BENCHMARKS.md holds what it printed.
#
#   scripts/bench.sh [PATTERN]     only benchmarks that match; "memory" for
#                                  those of `glovebox bench memory` alone
#
# MEMORY_TOKENS names the histories of these, e.g. 1M,10M,100M (the last takes
# half an hour), and GLOVEBOX_BENCH_DATA the directory of their data.
set -eu
cd "$(dirname "$0")/.."

pattern=${1:-.}
echo "machine: $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), Linux $(uname -r)"
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
has() { if eval "$2" >/dev/null 2>&1; then printf '%s ' "$1"; else printf '(%s: %s) ' "$1" "${3:-is not installed}"; fi; }
python=${GLOVEBOX_TEST_PYTHON:-python3}
echo "peers: $(for p in bwrap runc docker runsc chromium; do has "$p" "command -v $p"; done)"
echo "       $(has "docker's glovebox-machine" "docker image inspect ${GLOVEBOX_TEST_DOCKER_MACHINE:-glovebox-machine}" 'docker build -f image/Dockerfile -t glovebox-machine .')"
echo "       $(has "jupyter_client of $python" "$python -c 'import jupyter_client, ipykernel'" 'name one that has it and ipykernel in GLOVEBOX_TEST_PYTHON')"
echo "binary: $(stat -c %s bin/glovebox | awk '{printf "%.1f MiB", $1/1048576}')"
echo
memory() {
	echo "memory:"
	echo
	bin/glovebox bench memory --tokens "${MEMORY_TOKENS:-1M}"
}
if [ "$pattern" = memory ]; then
	memory
	exit
fi
echo "| benchmark | figures | load |"
echo "| --- | --- | --- |"
# A benchmark's line is its name, how often it ran, and pairs of figure and
# unit. What is skipped says why, below the table's rows.
go test -v -run '^$' -bench "$pattern" -benchtime "${BENCHTIME:-1s}" -timeout 30m ./... 2>&1 | awk '
	/^pkg: / { sub(/.*glovebox\//, ""); pkg = $0 }
	/^Benchmark/ && NF >= 4 {
		name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
		figures = ""
		for (i = 3; i < NF; i += 2) figures = figures (figures == "" ? "" : ", ") $i " " $(i + 1)
		getline load < "/proc/loadavg"; close("/proc/loadavg"); split(load, l, " ")
		printf "| %s %s | %s | %s |\n", pkg, name, figures, l[1]
		fflush()
	}
	/^--- |^    .*_test.go:|^FAIL|^panic:/ { print; fflush() }'
echo
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
if [ "$pattern" = . ]; then
	echo
	memory
fi
