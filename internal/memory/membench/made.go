package membench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// made returns runs that nobody recorded: an agent that reads and edits files
// of nonsense. They stand in where the data is missing.
func made(runs int) []trajectory {
	r := rand.New(rand.NewPCG(7, 7))
	word := func() string { return things[r.IntN(len(things))] }
	lines := func(n int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "\tif %s.%s(%d) != nil { return %s(%q) }\n", word(), word(), r.IntN(1000), word(), word()+" "+word())
		}
		return b.String()
	}
	var all []trajectory
	for i := range runs {
		t := trajectory{Run: i}
		say := func(role, text string) {
			t.Messages = append(t.Messages, struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			}{role, text})
		}
		say("user", fmt.Sprintf("Make the %s of the %s work with a %s.\n\n%s", word(), word(), word(), lines(20)))
		for range 20 {
			file := fmt.Sprintf("src/%s/%s_%d.go", word(), word(), r.IntN(50))
			say("assistant", fmt.Sprintf("Next I look at how %s treats the %s.\n```\nopen %s\n```", word(), word(), file))
			say("user", fmt.Sprintf("[File: %s]\n%s(Open file: %s)", file, lines(5+r.IntN(60)), file))
		}
		say("assistant", "That is all of it.\n```\nsubmit\n```")
		all = append(all, t)
	}
	return all
}
