#!/bin/sh
# Runs a command that downloads, again if it fails, four times at most: a
# network fails a request now and then, and what has arrived need not come again.
#
#   scripts/retry.sh command...
set -u
for wait in 2 6 12 0; do
	"$@" && exit 0
	code=$?
	[ $wait = 0 ] || { echo "retry: $1 failed with code $code; again in $wait seconds" >&2; sleep $wait; }
done
exit $code
