#!/bin/sh
# Installs what Glovebox needs beside git, make and Go, on Debian and Ubuntu.
# As root it installs; for a user it says what it needs sudo for, and why.
#
#   scripts/setup.sh run     to build and run
#   scripts/setup.sh test    also what the tests need
set -eu

# package, the file that shows that it is there, and why it is needed
run="
mmdebstrap|/usr/bin/mmdebstrap|builds the machine image
debian-archive-keyring|/usr/share/keyrings/debian-archive-keyring.gpg|checks the signatures of what goes into the image
ca-certificates|/etc/ssl/certs/ca-certificates.crt|lets the sandbox's downloads be verified
"
user="
uidmap|/usr/bin/newuidmap|lets an ordinary user build the image
"
test="
gcc|/usr/bin/gcc|the race detector of the tests is C
libc6-dev|/usr/include/stdlib.h|the race detector of the tests is C
unzip|/usr/bin/unzip|the tests unpack artifacts with a second program
erofs-utils|/usr/bin/fsck.erofs|the tests have images of ours checked by the file system's own program
"

want=$run
[ "$(id -u)" = 0 ] || want="$want$user"
case "${1:-run}" in
run) ;;
test) want="$want$test$user" ;;
*) echo "usage: $0 run|test" >&2; exit 2 ;;
esac

missing=
reasons=
while IFS='|' read -r package file why; do
	[ -n "$package" ] || continue
	[ -e "$file" ] && continue
	missing="$missing $package"
	reasons="$reasons
  $package: $why"
done <<EOF
$want
EOF

if [ -n "$missing" ]; then
	if ! command -v apt-get >/dev/null; then
		echo "setup: this machine has no apt-get. Please install these by other means:$reasons" >&2
		exit 1
	fi
	sudo=
	if [ "$(id -u)" != 0 ]; then
		echo "setup: sudo is needed to install Debian packages:$reasons"
		command -v sudo >/dev/null || { echo "setup: there is no sudo; as root run: apt-get install -y$missing" >&2; exit 1; }
		sudo=sudo
	fi
	$sudo apt-get update -q
	# shellcheck disable=SC2086 # the names are words
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
fi

[ "$(id -u)" = 0 ] && exit 0

# An ordinary user builds the image and runs sandboxes in user namespaces.
name=$(id -un)
if ! grep -q "^$name:" /etc/subuid 2>/dev/null || ! grep -q "^$name:" /etc/subgid 2>/dev/null; then
	echo "setup: sudo is needed once to give $name a range of sub-uids, with which the image is built"
	sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "$name"
fi
restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
if [ -e $restricted ] && [ "$(cat $restricted)" != 0 ]; then
	echo "setup: Ubuntu keeps ordinary users from user namespaces, which the sandbox needs; sudo is needed once to allow them"
	echo "kernel.apparmor_restrict_unprivileged_userns = 0" | sudo tee /etc/sysctl.d/60-glovebox.conf >/dev/null
	sudo sysctl -q -p /etc/sysctl.d/60-glovebox.conf
fi
