// Package image embeds the definition of what is inside the machine: the
// list of Debian packages, the script that sets them up, the files that it
// installs and the services that the guest daemon looks after.
//
// services.json is a list of services, installed as
// /etc/glovebox/services.json. Of each it says:
//
//	name       what the guest protocol calls it; [a-z]+
//	command    the program and its arguments; it runs as uid 1000 in its home
//	env        what is added to the environment of every tool
//	after      services that have to be ready before this one is started
//	ready      where it answers when it is up: "unix" or "tcp" an address that
//	           takes connections, or "path" a file that is there; with none of
//	           them it is up when it runs. The file is removed before a start
//	on_demand  it is started when it is first wanted, not with the others
//	secret     the file that its secret is written to (mode 0600, uid 1000)
//	           before it starts and at every Bind, and the format: "text", or
//	           "vncpasswd" for the obscured first 8 characters that VNC uses
package image

import "embed"

// Definition holds what an image is made from: packages.txt, dpkg.cfg (paths
// that are left out of them), python.txt, jupyter.txt and npm.txt (packages of
// those), setup.sh, services.json, files (copied to /) and jupyter (copied to
// /etc/glovebox/jupyter, its kernels to /usr/local/share/jupyter).
//
//go:embed packages.txt dpkg.cfg python.txt jupyter.txt npm.txt setup.sh services.json all:files all:jupyter
var Definition embed.FS
