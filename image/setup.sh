#!/bin/sh
# Runs as root inside the new file system, after the packages are installed
# and before it is packed, in the directory of the definition, which is removed
# afterwards. host.crt, if it is there, has the certificates that the host
# trusts beside the public ones; variables of pip and npm are the host's, too.
# None of them stays in the image.
set -eu
here=$(dirname "$0")
cd "$here"

# Tools run as this user. There is no sudo and no password.
groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --home-dir /home/agent --create-home --shell /bin/bash agent
passwd --lock root >/dev/null

install -d -o agent -g agent -m 0755 /workspace
install -d -m 0755 /.glovebox          # the guest daemon is mounted here
install -d -m 0755 /run/glovebox       # the guest daemon opens it to services
install -d -o agent -g agent -m 0700 /run/user /run/user/1000
chown root:root /run/user && chmod 0755 /run/user
install -d -o agent -g agent -m 0700 /var/lib/glovebox

# Files of ours. Modes are not part of the definition.
cp -R files/. /
install -D -m 0644 services.json /etc/glovebox/services.json
mkdir -p /etc/glovebox/jupyter
cp -R jupyter/. /etc/glovebox/jupyter/
find /etc/glovebox /usr/share/glovebox /etc/chromium /etc/chromium.d /usr/share/themes/Glovebox -type f -exec chmod 0644 {} +
chmod 0755 /usr/lib/glovebox /usr/lib/glovebox/*

# What is installed "globally" goes to the user's own prefix.
install -d -o agent -g agent /home/agent/.local /home/agent/.local/bin
cat >/home/agent/.npmrc <<'END'
prefix=/home/agent/.local
fund=false
audit=false
update-notifier=false
END
cat >/etc/profile.d/glovebox.sh <<'END'
PATH=/workspace/node_modules/.bin:/workspace/.venv/bin:/home/agent/.local/bin:/opt/python/bin:$PATH
DISPLAY=${DISPLAY:-:1} GSETTINGS_BACKEND=memory NO_AT_BRIDGE=1
export PATH DISPLAY GSETTINGS_BACKEND NO_AT_BRIDGE
END
cat >/home/agent/.gitconfig <<'END'
[user]
	name = Glovebox agent
	email = agent@glovebox.invalid
[init]
	defaultBranch = main
[safe]
	directory = *
[advice]
	detachedHead = false
END
ln -s /usr/bin/fdfind /usr/local/bin/fd

# Packages of Python and Node. In a subshell: its variables end with it.
names() { sed 's/#.*//' "$1"; }
(
	# These name files of the host.
	unset SSL_CERT_DIR PIP_FIND_LINKS PIP_CONFIG_FILE NODE_OPTIONS PYTHONPATH VIRTUAL_ENV
	unset npm_config_userconfig npm_config_globalconfig npm_config_prefix npm_config_cafile
	unset NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG NPM_CONFIG_PREFIX NPM_CONFIG_CAFILE
	touch host.crt
	cat /etc/ssl/certs/ca-certificates.crt host.crt >bundle.crt
	for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS npm_config_cafile; do
		export "$name=$PWD/bundle.crt"
	done
	printf '%s\n' "${GLOVEBOX_NPMRC:-}" >npmrc
	export npm_config_userconfig="$PWD/npmrc"
	export HOME="$PWD/home" PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
	export npm_config_cache="$PWD/npm" npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
	mkdir -p "$HOME"
	for venv in python jupyter; do
		python3 -m venv /opt/$venv
		# shellcheck disable=SC2046 # the names are words
		/opt/$venv/bin/pip install --quiet $(names $venv.txt)
	done
	# shellcheck disable=SC2046
	npm install --global --prefix /usr/local --no-progress --loglevel=error $(names npm.txt)
)
# Deno's own program in place of the Node script that starts it.
deno=$(find /usr/local/lib/node_modules/deno/ -type f -name deno -size +10M | head -n 1)
mv "$deno" /usr/local/bin/deno.real && rm -rf /usr/local/lib/node_modules/deno /usr/local/bin/deno
mv /usr/local/bin/deno.real /usr/local/bin/deno && chmod 0755 /usr/local/bin/deno

# Room: what nobody looks at.
find /opt -depth -type d \( -name tests -o -name test \) \( -path '*/numpy/*' -o -path '*/pandas/*' -o -path '*/matplotlib/*' \) -exec rm -rf {} +
find /opt -path '*/jedi/third_party/django-stubs' -prune -exec rm -rf {} +
find /opt -path '*/babel/locale-data/*' ! -name 'root.dat' ! -name 'en*.dat' -type f -delete
find /opt/jupyter/share/jupyter -name '*.map' -delete
/opt/python/bin/pip uninstall --quiet --yes debugpy
/opt/jupyter/bin/pip uninstall --quiet --yes debugpy pip
# The kernels are the definition's, not those that the packages bring.
rm -rf /opt/*/share/jupyter/kernels
mkdir -p /usr/local/share/jupyter
mv /etc/glovebox/jupyter/kernels /usr/local/share/jupyter/kernels
chown -R agent:agent /opt/python

# How it looks. Icon and font caches are read at every start of a program.
rsvg-convert --width 1920 --height 1200 -o /usr/share/glovebox/wallpaper.png /usr/share/glovebox/wallpaper.svg
rm -rf /usr/share/icons/Papirus-Light
for theme in Papirus Papirus-Dark; do
	find /usr/share/icons/$theme -xtype l -delete
	find /usr/share/icons/$theme -depth -type d -empty -delete
	gtk-update-icon-cache --quiet --force /usr/share/icons/$theme
done
# The cache of fonts goes by the directories' times, which are all the packer's.
find /usr/share/fonts -type d -exec touch -d @1577836800 {} +
fc-cache --force --system-only
mkdir -p /usr/share/icons/default
printf '[Icon Theme]\nInherits=DMZ-White\n' >/usr/share/icons/default/index.theme
rm -rf /etc/xdg/autostart /etc/xdg/openbox/autostart
rm -f /etc/chromium.d/dev-shm /etc/chromium.d/default-flags /etc/chromium.d/apikeys /etc/chromium.d/extensions # ours say it all
chown -R agent:agent /home/agent
su agent -c 'mkdir -p ~/.local/share/glovebox ~/.cache && MPLBACKEND=agg /opt/python/bin/python -c "import matplotlib.pyplot"'

# The packer gives every file one time, 2020-01-01. Python takes what it has
# compiled for outdated when the source has another time than it was told, and
# would compile everything anew at every start: so tell it that one.
find /opt /usr/lib/python3 /usr/lib/python3.* -name '*.py' -exec touch -h -d @1577836800 {} +
python3 - <<'END'
import pathlib, struct
for top in "/opt", "/usr/lib":
    for pyc in pathlib.Path(top).rglob("*.pyc"):
        with open(pyc, "r+b") as f:
            if f.read(8)[4:] == bytes(4):  # it goes by time
                f.seek(8)
                f.write(struct.pack("<I", 1577836800))
END

# The sandbox has no network device and no resolver: names are resolved by
# the host, on the other side of the proxy.
if [ -z "${GLOVEBOX_CONTAINER:-}" ]; then # an engine brings its own
	printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
	: >/etc/resolv.conf
	echo glovebox >/etc/hostname
fi

# /tmp is mmdebstrap's and is not packed; the package lists go, since they age.
apt-get clean
find /var/lib/apt/lists -type f -delete
rm -rf /var/log/* /var/cache/debconf/*-old /var/cache/fontconfig.old /etc/ssh/ssh_host_* /root/.cache /root/.npm
rm -f /etc/machine-id && : >/etc/machine-id
