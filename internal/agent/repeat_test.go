package agent

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// The same failing command takes another while each time and is the same nevertheless.
func TestRepeatsSeeThroughDurations(t *testing.T) {
	t.Parallel()
	key := func(name, text string) repeatKey {
		call := glovebox.Block{Type: glovebox.BlockToolUse, Name: name, Input: []byte(`{}`)}
		return repeatKeyOf(call, glovebox.ToolFinished{Name: name, IsError: true, Content: []glovebox.Block{glovebox.Text(text)}})
	}
	first := key("shell", "no rule to make target\n[exit 2 after 1.4 s]")
	if again := key("shell", "no rule to make target\n[exit 2 after 11.9 s]"); again != first {
		t.Error("another duration makes another result")
	}
	if other := key("shell", "no rule to make target\n[exit 3 after 1.4 s]"); other == first {
		t.Error("another exit code makes no other result")
	}
	if key("shell_output", "[runs for 10 s]") == key("shell_output", "[runs for 20 s]") {
		t.Error("waiting longer counts as going in circles")
	}
}
