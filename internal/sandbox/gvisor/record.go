package gvisor

import (
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// What is in a sandbox's directory.
const (
	recordFile  = "record.json" // a record
	causeFile   = "cause"       // written by a sentry that ends itself
	exitFile    = "exit"        // written by the creator, if it lives to see the end
	bootLogFile = "boot.log"    // what the sentry's process said on its standard error
	socketFile  = "control.sock"
)

// record is what is known of a sandbox across processes. It is written whole
// under a temporary name and renamed; it is not synced, since no sandbox
// survives the machine.
type record struct {
	ID        sandbox.ID        `json:"id"`
	CreatedAt time.Time         `json:"created_at"`
	Labels    map[string]string `json:"labels,omitempty"`
	Limits    glovebox.Limits   `json:"limits"`
	Image     string            `json:"image"`
	Enforced  map[string]string `json:"enforced,omitempty"`
	Process   local.Process     `json:"process"`
	Cgroups   []string          `json:"cgroups,omitempty"` // directories to remove
	Started   bool              `json:"started"`           // Create has returned, or is about to
}

func writeRecord(dir string, r *record) error {
	return local.WriteJSON(filepath.Join(dir, recordFile), r)
}

// readRecord returns nil without an error if there is no record, or none
// that can be read: what an interrupted Create left.
func readRecord(dir string) (*record, error) {
	r := new(record)
	ok, err := local.ReadJSON(filepath.Join(dir, recordFile), r)
	if err != nil || !ok || r.ID != sandbox.ID(filepath.Base(dir)) {
		return nil, err
	}
	return r, nil
}
