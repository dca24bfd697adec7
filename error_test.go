package glovebox_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestErrorSaysEverythingOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  *glovebox.Error
		want string
	}{
		{glovebox.Errorf(glovebox.CodeInternal, "read the head: %w", io.ErrUnexpectedEOF), "read the head: unexpected EOF"},
		{glovebox.Errorf(glovebox.CodeConflict, "job %s has ended", "x"), "job x has ended"},
		{glovebox.Errorf(glovebox.CodeInternal, "%w", io.EOF), "EOF"},
		{glovebox.Invalid("limits.steps", "give more", "%d is out of range", 0), "limits.steps: 0 is out of range (give more)"},
		{&glovebox.Error{Op: "create sandbox", Msg: "no image", Hint: "build it", Err: io.EOF}, "create sandbox: no image: EOF (build it)"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestCodeOfLooksThroughTheChain(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("outer: %w", glovebox.Errorf(glovebox.CodeNotFound, "inner: %w", io.EOF))
	if got := glovebox.CodeOf(wrapped); got != glovebox.CodeNotFound {
		t.Errorf("got %q", got)
	}
	if !errors.Is(wrapped, io.EOF) {
		t.Error("the cause is lost")
	}
	if got := glovebox.CodeOf(io.EOF); got != glovebox.CodeInternal {
		t.Errorf("an error without a code: got %q", got)
	}
	if got := glovebox.CodeOf(nil); got != "" {
		t.Errorf("no error: got %q", got)
	}
}
