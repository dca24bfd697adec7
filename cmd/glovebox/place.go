package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox"
)

// maxPlaces is how many names are tried for a project.
const maxPlaces = 10_000

// freePlace returns where a project can be left without touching anything:
// wanted if it is an empty directory or nothing and its zip is not there,
// else the first of wanted-2, wanted-3 and so on of which that is true. The
// directory is made. The zip is beside the directory; in it, as id.zip, if
// the directory has no name of its own, such as "..".
func freePlace(wanted, id string) (dir, archive string, err error) {
	base := wanted
	switch filepath.Base(wanted) {
	case ".", "..", string(filepath.Separator):
		free, err := emptyDir(wanted)
		if err != nil {
			return "", "", err
		}
		if free {
			return wanted, filepath.Join(wanted, id+".zip"), nil
		}
		if base, err = filepath.Abs(wanted); err != nil {
			return "", "", err
		}
	}
	for n := 1; n <= maxPlaces; n++ {
		dir := base
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", base, n)
		}
		if _, err := os.Lstat(dir + ".zip"); err == nil {
			continue
		}
		free, err := emptyDir(dir)
		if err != nil {
			return "", "", err
		}
		if free {
			return dir, dir + ".zip", nil
		}
	}
	return "", "", glovebox.Invalid("out", "name another directory", "%s and the next %d names are taken", wanted, maxPlaces-1)
}

// emptyDir makes a directory if there is nothing of that name, and reports
// whether it is an empty one.
func emptyDir(name string) (bool, error) {
	err := os.Mkdir(name, 0o755)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make the directory for the project: %w", err)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) { // what can't be looked into, or a link to nothing
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into the directory for the project: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.IsDir() {
		return false, err
	}
	_, err = f.ReadDir(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}
