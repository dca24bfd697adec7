#!/bin/sh
# Runs as root inside the new file system, after the packages are installed
# and before it is packed.
set -eu

# Tools run as this user. There is no sudo and no password.
groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --home-dir /home/agent --create-home --shell /bin/bash agent
passwd --lock root >/dev/null

install -d -o agent -g agent -m 0755 /workspace
install -d -m 0755 /.glovebox          # the guest daemon is mounted here
install -d -m 0755 /run/glovebox
install -d -o agent -g agent -m 0700 /var/lib/glovebox

# What is installed "globally" goes to the user's own prefix.
install -d -o agent -g agent /home/agent/.local /home/agent/.local/bin
cat >/home/agent/.npmrc <<'EOF'
prefix=/home/agent/.local
fund=false
audit=false
update-notifier=false
EOF
cat >/etc/profile.d/glovebox.sh <<'EOF'
PATH=/workspace/node_modules/.bin:/workspace/.venv/bin:/home/agent/.local/bin:$PATH
export PATH
EOF
cat >/home/agent/.gitconfig <<'EOF'
[user]
	name = Glovebox agent
	email = agent@glovebox.invalid
[init]
	defaultBranch = main
[safe]
	directory = *
[advice]
	detachedHead = false
EOF
chown -R agent:agent /home/agent

# The sandbox has no network device and no resolver: names are resolved by
# the host, on the other side of the proxy.
printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
: >/etc/resolv.conf
echo glovebox >/etc/hostname

# /tmp is mmdebstrap's and is not packed; the package lists go, since they age.
apt-get clean
find /var/lib/apt/lists -type f -delete
rm -rf /var/log/* /var/cache/debconf/*-old /etc/ssh/ssh_host_*
rm -f /etc/machine-id && : >/etc/machine-id
