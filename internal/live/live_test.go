package live_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/live"
)

func TestSubscribersGetTheirOwnJob(t *testing.T) {
	t.Parallel()
	var hub live.Hub
	a, endA := hub.Subscribe("a")
	b, endB := hub.Subscribe("b")
	defer endB()
	hub.Publish("a", glovebox.Event{Type: "x"})
	if e := <-a; e.Type != "x" {
		t.Errorf("got %+v", e)
	}
	select {
	case e := <-b:
		t.Errorf("another job's subscriber got %+v", e)
	default:
	}
	endA()
	endA() // twice is harmless
	if _, open := <-a; open {
		t.Error("an ended subscription is still open")
	}
	hub.Publish("a", glovebox.Event{}) // to nobody
}

func TestSlowSubscriberLosesAndBlocksNobody(t *testing.T) {
	t.Parallel()
	var hub live.Hub
	slow, end := hub.Subscribe("a")
	defer end()
	for range live.Buffer + 100 {
		hub.Publish("a", glovebox.Event{})
	}
	if len(slow) != live.Buffer {
		t.Errorf("the subscriber holds %d, want %d", len(slow), live.Buffer)
	}
}
