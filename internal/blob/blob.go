// Package blob is the contract for large immutable things: artifacts,
// checkpoints, uploads, outputs too long for the log.
//
// A blob appears under its key whole or not at all, and survives loss of
// power once Put has returned. Package blobtest proves an implementation.
package blob

import (
	"context"
	"crypto/sha256"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Store keeps blobs.
type Store interface {
	// Put stores what r holds until its end under key, replacing what was
	// there. On error, also one of r, nothing changed. limit bounds the size
	// in bytes: more is CodeTooLarge.
	Put(ctx context.Context, key string, r io.Reader, limit int64) (Info, error)

	// Open returns a blob for reading, CodeNotFound if there is none.
	Open(ctx context.Context, key string) (Reader, error)

	// DeletePrefix removes all blobs whose key starts with prefix, which ends
	// with a slash. None is no error.
	DeletePrefix(ctx context.Context, prefix string) error
}

// Lister is a [Store] that can tell what it holds.
type Lister interface {
	// List returns what there is directly below prefix, which ends with a
	// slash, in no order. None is no error.
	List(ctx context.Context, prefix string) ([]Entry, error)
}

// Locker is a [Store] whose users, in all processes, can keep each other out.
type Locker interface {
	// Lock waits until nobody else has the lock of a name, which is one
	// segment of a key, and has it until unlock, or until the process dies.
	// It is not given twice to the same caller either.
	Lock(ctx context.Context, name string) (unlock func(), err error)
}

// Entry is a segment of keys below a prefix.
type Entry struct {
	Name     string    // with a slash at its end if there are blobs below it
	Modified time.Time // when a blob of that key was put, or directly below it put or removed, at the latest
}

// Info describes a stored blob.
type Info struct {
	Key    string
	Size   int64  // bytes
	SHA256 string // in hex
}

// Reader reads a blob, from any place in it.
type Reader interface {
	io.ReadSeekCloser
	Size() int64
}

// keyPattern is what all backends can store: at most eight segments that are
// portable file names.
var keyPattern = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,99}(/[0-9A-Za-z_-][0-9A-Za-z._-]{0,99}){0,7}$`)

// CheckKey returns an error if key is not a valid one.
func CheckKey(key string) error {
	if !keyPattern.MatchString(key) {
		return glovebox.Invalid("key", "use at most eight segments of letters, digits, '.', '_' and '-'", "%q is not a blob key", key)
	}
	return nil
}

// Jobs is the prefix of the blobs of all jobs.
const Jobs = "jobs/"

// JobPrefix is the prefix of all blobs of a job.
func JobPrefix(jobID string) string { return Jobs + jobID + "/" }

// NewOutput returns a handle for an output that is too long for the log.
func NewOutput() string { return outputMark + glovebox.NewID() }

// OutputOf returns the handle of an output that is kept once, however often it
// comes: it follows from the bytes.
func OutputOf(data []byte) string {
	sum := sha256.Sum256(data)
	return outputMark + glovebox.HashID(sum)
}

const outputMark = "out-"

// OutputKey returns the key of an output of a job by its handle. The handle
// may come from anyone: what is none is CodeNotFound.
func OutputKey(jobID, handle string) (string, error) {
	if id, ok := strings.CutPrefix(handle, outputMark); !ok || !glovebox.ValidID(id) {
		return "", glovebox.Errorf(glovebox.CodeNotFound, "there is no output %.60q", handle)
	}
	return JobPrefix(jobID) + "outputs/" + handle, nil
}
