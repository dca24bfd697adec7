package glovebox

import "fmt"

// Limits bound what one job may use. Zero means "not set": the default, or,
// in a patch, unchanged. The first four are soft: a job that reaches one stops
// and goes on when it is raised; none can be lowered or removed. The others are
// limits of the sandbox and hold for its whole life.
type Limits struct {
	Steps           int64 `json:"steps,omitempty" doc:"Calls to the model that may be answered."`
	Tokens          int64 `json:"tokens,omitempty" doc:"Tokens read and written by the model, together."`
	CostMicros      int64 `json:"cost_micros,omitempty" doc:"Millionths of a US dollar that the model may cost. A model without a price can't run under it. It can be raised, not removed."`
	WallTimeSeconds int64 `json:"wall_time_seconds,omitempty" doc:"Seconds of work, time in the queue and waiting for a person not counted."`

	MemoryBytes int64 `json:"memory_bytes,omitempty" doc:"Memory of the sandbox: its processes and what they keep in memory-backed file systems such as /dev/shm."`
	CPUMillis   int64 `json:"cpu_millis,omitempty" doc:"Thousandths of a processor."`
	Processes   int64 `json:"processes,omitempty" doc:"Processes and threads in the sandbox at once."`
	DiskBytes   int64 `json:"disk_bytes,omitempty" doc:"Bytes that the sandbox may write to its file system, which is on the host's disk."`
}

// DefaultLimits returns the limits of a job that names none. There is no
// limit of money by default: most models that people run themselves have no
// price.
func DefaultLimits() Limits {
	return Limits{
		Steps:           300,
		Tokens:          20_000_000,
		WallTimeSeconds: 4 * 3600,
		MemoryBytes:     4 << 30,
		CPUMillis:       2000,
		Processes:       2048,
		DiskBytes:       8 << 30,
	}
}

// limitBound is the range that a limit may have when it is set.
type limitBound struct {
	field    string
	min, max int64
	get      func(*Limits) *int64
}

// limitBounds are the ranges: the least with which a job can do anything, and
// the most that is still plausibly meant (a week, 100,000 dollars, a large
// server).
var limitBounds = []limitBound{
	{"steps", 1, 1_000_000, func(l *Limits) *int64 { return &l.Steps }},
	{"tokens", 1_000, 100_000_000_000, func(l *Limits) *int64 { return &l.Tokens }},
	{"cost_micros", 1, 100_000_000_000, func(l *Limits) *int64 { return &l.CostMicros }},
	{"wall_time_seconds", 1, 7 * 24 * 3600, func(l *Limits) *int64 { return &l.WallTimeSeconds }},
	{"memory_bytes", 256 << 20, 1 << 40, func(l *Limits) *int64 { return &l.MemoryBytes }},
	{"cpu_millis", 100, 256_000, func(l *Limits) *int64 { return &l.CPUMillis }},
	{"processes", 32, 1 << 20, func(l *Limits) *int64 { return &l.Processes }},
	{"disk_bytes", 64 << 20, 16 << 40, func(l *Limits) *int64 { return &l.DiskBytes }},
}

// LimitRange returns the range that a limit may have when it is set, by its
// name in JSON. Both are 0 if there is no such limit.
func LimitRange(field string) (least, most int64) {
	for _, b := range limitBounds {
		if b.field == field {
			return b.min, b.max
		}
	}
	return 0, 0
}

// Validate returns an [Error] about the first limit that is set and out of
// its range.
func (l Limits) Validate() error {
	for _, b := range limitBounds {
		v := *b.get(&l)
		if v != 0 && (v < b.min || v > b.max) {
			return Invalid("limits."+b.field, fmt.Sprintf("give a whole number from %d to %d, or leave it out for the default", b.min, b.max),
				"%d is out of range", v).WithValue(v)
		}
	}
	return nil
}

// Or returns l with what is not set taken from def.
func (l Limits) Or(def Limits) Limits {
	for _, b := range limitBounds {
		if p := b.get(&l); *p == 0 {
			*p = *b.get(&def)
		}
	}
	return l
}
