package image

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// subIDs is how many sub-uids and sub-gids the system in an image needs.
const subIDs = 65536

// checkSubIDs reports, as an error with what to do, whether this user has no
// ranges of sub-uids and sub-gids: in them are the users of the image while an
// ordinary user builds it.
func checkSubIDs(etc string) error {
	u, err := user.Current()
	if err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the machine image", Msg: fmt.Sprintf("the user %d has no name", os.Getuid()), Err: err,
			Hint: "build it as a user who is in /etc/passwd, or as root"}
	}
	return checkSubIDsOf(u.Username, etc)
}

func checkSubIDsOf(name, etc string) error {
	var missing []string
	start := int64(100_000)
	for _, file := range []string{"subuid", "subgid"} {
		has, end := readSubIDs(filepath.Join(etc, file), name)
		if !has {
			missing = append(missing, "/etc/"+file)
		}
		start = max(start, end)
	}
	if len(missing) == 0 {
		return nil
	}
	ids := fmt.Sprintf("%d-%d", start, start+subIDs-1)
	var flags string
	for _, file := range missing {
		flags += " --add-" + strings.TrimPrefix(file, "/etc/") + "s " + ids
	}
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the machine image",
		Msg:  fmt.Sprintf("the user %s has no range of %d ids in %s", name, subIDs, strings.Join(missing, " and ")),
		Hint: "run: sudo usermod" + flags + " " + name}
}

// readSubIDs reports whether a user has a range that is large enough, and
// where the last range of all users ends. A file that can't be read has none.
func readSubIDs(file, name string) (has bool, end int64) {
	b, err := os.ReadFile(file)
	if err != nil {
		return false, 0
	}
	for l := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(l), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		n, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		end = max(end, int64(first+n))
		has = has || f[0] == name && n >= subIDs
	}
	return has, end
}
