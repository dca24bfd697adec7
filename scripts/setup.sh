#!/bin/sh
# Installs what Glovebox needs beside git, make and Go, on Debian and Ubuntu.
# As root it installs; for a user it says what it needs sudo for, and why.
#
#   scripts/setup.sh run     to build and run
#   scripts/setup.sh test    also what the tests need
set -eu

# package, the file or command that shows that it is there, and why it is needed
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
patch|patch|the tests apply diffs with a second program
erofs-utils|/usr/bin/fsck.erofs|the tests have images of ours checked by the file system's own program
tigervnc-standalone-server|Xvnc|the tests of the screen, the mouse and the keyboard have one outside the sandbox
tigervnc-tools|vncpasswd|the display's password is compared with what its own program makes
openbox|openbox|windows are listed and focused as a window manager has them
xterm|xterm|the tests type into a window
x11-utils|xmessage|the tests click in a window
x11-xserver-utils|xsetroot|the tests paint the screen
x11-xkb-utils|setxkbmap|the tests change the layout of the keyboard
imagemagick|import|screenshots are compared with those of a second program
chromium|chromium|the tests open pages in it, hostile ones included
python3-ipykernel|/usr/share/doc/python3-ipykernel|the tests of kernels run one outside the sandbox
nginx-light|/usr/sbin/nginx|the server is tested behind it
caddy|caddy|the server is tested behind it
nodejs|node|the page is built anew and compared with what is committed
npm|npm|the page is built anew and compared with what is committed
docker.io|docker|the tests of the Docker driver and of the image need an engine
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
	[ -e "$file" ] || command -v "$file" >/dev/null && continue
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
	# Both again if one fails: an index that was only half there is noticed late.
	try=1
	# shellcheck disable=SC2086 # the names are words
	until $sudo apt-get update -q -o Acquire::Retries=5 &&
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 $missing; do
		[ $try -lt 4 ] || { echo "setup: apt-get failed $try times" >&2; exit 1; }
		try=$((try + 1))
		sleep 5
	done

	# The tests start their own; a machine that had none should not serve port 80.
	if [ -d /run/systemd/system ]; then
		case "$missing" in *nginx-light*) $sudo systemctl disable --quiet --now nginx ;; esac
		case "$missing" in *caddy*) $sudo systemctl disable --quiet --now caddy ;; esac
	fi
fi

# Vite needs a Node that not every distribution has.
if [ "${1:-run}" = test ] && ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || a == 22 && b >= 12 || a == 20 && b >= 19 ? 0 : 1)'; then
	echo "setup: $(command -v node) is version $(node --version); building the page needs 20.19, 22.12 or later. Please install one." >&2
	exit 1
fi

# Where nothing else starts services, as in a container, the engine is started
# here. What needs it is skipped if it can't run.
if [ "${1:-run}" = test ] && [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null && ! docker version >/dev/null 2>&1; then
	log=/var/log/glovebox-dockerd.log
	setsid nohup dockerd >$log 2>&1 </dev/null &
	engine=$!
	tries=0
	until docker version >/dev/null 2>&1 || ! kill -0 $engine 2>/dev/null || [ $tries = 120 ]; do
		tries=$((tries + 1))
		sleep 1
	done
	docker version >/dev/null 2>&1 || echo "setup: the Docker engine does not start here, so that its tests will be skipped; see $log" >&2
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
