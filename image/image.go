// Package image embeds the definition of what is inside the machine: the
// list of Debian packages and the script that sets them up.
package image

import "embed"

// Definition holds packages.txt and setup.sh.
//
//go:embed packages.txt setup.sh
var Definition embed.FS
