package store

import (
	"context"

	"github.com/glovebox-dev/glovebox"
)

// Counter is what a Store may also do: count jobs cheaply, for metrics.
type Counter interface {
	// CountJobs returns how many jobs there are in each status, of all
	// tenants. A status without a job may be missing.
	CountJobs(ctx context.Context) (map[glovebox.Status]int64, error)
}
