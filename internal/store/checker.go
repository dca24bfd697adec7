package store

import "context"

// Checker is what a Store may also do: tell whether it works.
type Checker interface {
	// Check reads and writes something durably, and looks for damage that can
	// be found without reading everything. It takes as long as the disk does.
	// The Msg of its error names no path: it may be shown to anyone.
	Check(ctx context.Context) error
}
