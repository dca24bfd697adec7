package glovebox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestDefaultLimitsAreValid(t *testing.T) {
	t.Parallel()
	if err := glovebox.DefaultLimits().Validate(); err != nil {
		t.Fatal(err)
	}
	if err := (glovebox.Limits{}).Validate(); err != nil {
		t.Fatalf("limits that are not set: %v", err)
	}
}

func TestLimitRange(t *testing.T) {
	t.Parallel()
	least, most := glovebox.LimitRange("tokens")
	for n, ok := range map[int64]bool{least - 1: false, least: true, most: true, most + 1: false} {
		if err := (glovebox.Limits{Tokens: n}).Validate(); (err == nil) != ok {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
	if least, most := glovebox.LimitRange("colour"); least != 0 || most != 0 {
		t.Errorf("what is no limit: %d to %d", least, most)
	}
}

func TestLimitsNameFieldValueAndRemedy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		limits      glovebox.Limits
		field, part string
	}{
		{glovebox.Limits{Steps: -1}, "limits.steps", "-1"},
		{glovebox.Limits{Tokens: 999}, "limits.tokens", "999"},
		{glovebox.Limits{CostMicros: 1 << 60}, "limits.cost_micros", "1152921504606846976"},
		{glovebox.Limits{WallTimeSeconds: 604_801}, "limits.wall_time_seconds", "604801"},
		{glovebox.Limits{MemoryBytes: 1}, "limits.memory_bytes", "1"},
		{glovebox.Limits{CPUMillis: 99}, "limits.cpu_millis", "99"},
		{glovebox.Limits{Processes: 1}, "limits.processes", "1"},
		{glovebox.Limits{DiskBytes: 1}, "limits.disk_bytes", "1"},
	}
	for _, tt := range tests {
		err := tt.limits.Validate()
		e, ok := errors.AsType[*glovebox.Error](err)
		if !ok || e.Code != glovebox.CodeInvalid || e.Field != tt.field || !strings.Contains(e.Msg, tt.part) || e.Hint == "" {
			t.Errorf("%+v: got %v; want CodeInvalid about %s that names %s and a remedy", tt.limits, err, tt.field, tt.part)
		}
	}
}

func TestOrFillsOnlyWhatIsNotSet(t *testing.T) {
	t.Parallel()
	got := glovebox.Limits{Steps: 7}.Or(glovebox.Limits{Steps: 1, Tokens: 2})
	if want := (glovebox.Limits{Steps: 7, Tokens: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
