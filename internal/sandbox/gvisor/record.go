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
	limitFile   = "limit"      // the bytes of memory that the sentry watches, which may be changed
	adoptFile   = "adopt.json" // the record that is valid once the directory has its name
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
	Start     string            `json:"start,omitempty"`   // as in sandbox.Info
	Sentry    sandbox.ID        `json:"sentry,omitempty"`  // what gVisor calls it, if it was adopted; else ID
	Pause     pauseState        `json:"pause,omitempty"`
}

// sentry returns what gVisor calls the sandbox.
func (r *record) sentry() sandbox.ID {
	if r.Sentry != "" {
		return r.Sentry
	}
	return r.ID
}

func writeRecord(dir string, r *record) error {
	return local.WriteJSON(filepath.Join(dir, recordFile), r)
}

// readRecord returns nil without an error if there is no record, or none
// that can be read: what an interrupted Create left.
func readRecord(dir string) (*record, error) {
	// The name of the directory decides which record is valid: an adopted
	// sandbox has two until the older one is replaced.
	for _, name := range []string{recordFile, adoptFile} {
		r := new(record)
		ok, err := local.ReadJSON(filepath.Join(dir, name), r)
		if err != nil {
			return nil, err
		}
		if ok && r.ID == sandbox.ID(filepath.Base(dir)) {
			return r, nil
		}
	}
	return nil, nil
}
