// Package store is the contract for what a Glovebox server remembers: jobs,
// their events, leases, messages to running jobs, and tokens.
//
// # Promises of every implementation
//
// A method that changes something returns nil only after the change is
// durable: it survives kill -9 and loss of power. On error nothing changed.
// Changes are atomic and isolated from each other. All methods may be called
// from many goroutines and from many processes at once.
//
// The events of a job are numbered 1, 2, 3 ... without gaps and are never
// changed. Only the holder of the job's current lease appends to a running
// job ([glovebox.CodeFenced] otherwise); the store itself appends where
// nobody holds the job. The state of a job in [Jobs] is always the result of
// applying its events with [glovebox.Job.Apply], in the same transaction.
//
// Package storetest proves an implementation.
package store

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Store is all of the contract. Code that needs less asks for less.
type Store interface {
	Jobs
	Signals
	Queue
	Log
	Tokens
	Close() error
}

// Jobs creates, reads and removes jobs.
type Jobs interface {
	// CreateJob appends the first event of a new job, which is then pending.
	// If key is not empty and the tenant has used it before, the job of that
	// time is returned and created is false; if the request differs from that
	// time's (by digest), the error is CodeConflict.
	CreateJob(ctx context.Context, c glovebox.Created, key IdempotencyKey) (job *glovebox.Job, created bool, err error)

	// Job returns a job of the tenant, CodeNotFound if there is none. The
	// empty tenant stands for any.
	Job(ctx context.Context, tenant, id string) (*glovebox.Job, error)

	// ListJobs returns jobs of a tenant, newest first.
	ListJobs(ctx context.Context, f JobFilter) (JobPage, error)

	// QueuePosition returns how many claimable jobs are ahead of a pending
	// one, plus one; 0 for a job that is not pending.
	QueuePosition(ctx context.Context, id string) (int64, error)

	// DeleteJob removes a terminal job with all that belongs to it.
	// CodeConflict if the job is not terminal.
	DeleteJob(ctx context.Context, tenant, id string) error
}

// IdempotencyKey makes a repeated request harmless.
type IdempotencyKey struct {
	Key    string   // as the client sent it; empty for none
	Digest [32]byte // of the request
}

// JobFilter selects jobs.
type JobFilter struct {
	Tenant string            // empty for all
	Status []glovebox.Status // empty for all
	Query  string            // words that the task contains, in any case; empty for all
	Cursor string            // of the page before; empty for the first page
	Limit  int               // 1 to 1000
}

// JobPage is one page of a list.
type JobPage struct {
	Jobs   []*glovebox.Job
	Cursor string // for the next page; empty after the last
}

// Signals is how people reach a job that a worker may be running.
type Signals interface {
	// SendSignal leaves a signal for the job's worker. To a pending job the
	// store applies it at once, as the events that it leads to. CodeConflict
	// if the job is terminal, but for new limits to a job that failed at a
	// soft limit: that appends LimitsRaised and Resumed, and the job is
	// pending again.
	SendSignal(ctx context.Context, tenant, id string, s glovebox.Signal) error

	// PendingSignals returns the signals to a job that wait to be consumed,
	// oldest first. Appending the events that a signal leads to consumes it.
	PendingSignals(ctx context.Context, id string) ([]glovebox.Signal, error)
}

// Queue hands jobs to workers.
type Queue interface {
	// Claim takes the next job for a worker, with a lease of the given
	// length: a pending job whose turn it is, or a running one whose lease
	// has expired. It appends Claimed. It returns nil, nil if there is none.
	Claim(ctx context.Context, worker string, length time.Duration) (*Lease, error)

	// Renew extends a lease from now. CodeFenced if it was lost.
	Renew(ctx context.Context, l Lease, length time.Duration) error

	// Release appends Released and gives the job back: it is pending and can
	// be claimed at once. CodeFenced if the lease was lost.
	Release(ctx context.Context, l Lease, reason string) error

	// ExpireLeases ends the leases of a worker that is known to be dead, so
	// that its jobs can be claimed without waiting. No lease is no error.
	ExpireLeases(ctx context.Context, worker string) error

	// Wake returns a channel that receives after something became claimable
	// or a signal was sent, by any process. Spurious wake-ups happen. It is
	// closed when ctx ends.
	Wake(ctx context.Context) <-chan struct{}
}

// Lease is the right to run a job, until it expires.
type Lease struct {
	JobID  string
	Tenant string
	Worker string
	Fence  int64 // grows with every claim of the job
}

// Log is the events of jobs.
type Log interface {
	// Append numbers events and appends them, all or none, updates the job's
	// state and consumes signals by id. CodeFenced if the lease
	// is not the job's current one. After a Finished event the lease is over.
	// It returns the job's new state.
	Append(ctx context.Context, l Lease, events []glovebox.Event, consume ...int64) (*glovebox.Job, error)

	// Events returns up to limit events after number after, in order.
	Events(ctx context.Context, jobID string, after int64, limit int) ([]glovebox.Event, error)

	// Watch returns a channel that receives after events were appended to the
	// job, by any process. Spurious wake-ups happen; none is missed. It is
	// closed when ctx ends.
	Watch(ctx context.Context, jobID string) <-chan struct{}
}

// Tokens is who may use the API.
type Tokens interface {
	CreateToken(ctx context.Context, t glovebox.Token) error
	TokenByHash(ctx context.Context, hash [32]byte) (*glovebox.Token, error) // CodeNotFound if unknown
	ListTokens(ctx context.Context) ([]glovebox.Token, error)
	DeleteToken(ctx context.Context, id string) error // CodeNotFound if unknown
}
