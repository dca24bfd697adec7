package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/project"
)

// TestProjectMemory: what a complete job proved is brought into the next job
// of the same project and tenant, and into no other.
func TestProjectMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lesson := call("note", map[string]any{"name": "Mistakes", "text": "- Port 3000 is taken.\n", "scope": "project"})
	rule := call("note", map[string]any{"name": "style", "text": "Use tabs.", "scope": "project"})
	private := call("note", map[string]any{"name": "style", "text": "Only here.", "scope": "job"})
	w.model = script{shell("echo hello > hello.txt"), {lesson, rule, private}, finish("grep hello hello.txt")}
	o := w.options()
	o.Projects = project.NewStore(w.blobs, nil)
	worker := w.start(o)
	in := func(name, tenant string) func(*glovebox.Created) {
		return func(c *glovebox.Created) { c.Project, c.Tenant = name, tenant }
	}
	recalled := func(id string) map[string]string {
		t.Helper()
		if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
			t.Fatalf("job is %s", mustJSON(j))
		}
		got := map[string]string{}
		for _, p := range data[glovebox.ProjectRecalled](w, id, glovebox.EventProject) {
			for _, f := range p.Files {
				got[f.Name] += f.Text
			}
		}
		return got
	}
	id := w.submit(in("web", "t"))
	if got := recalled(id); len(got) != 0 {
		t.Errorf("the first job was told %v", got)
	}
	if types := w.types(id); slices.Contains(types, glovebox.EventProject) {
		t.Errorf("events are %v", types)
	}
	m, err := o.Projects.Get(w.ctx(), "t", "web")
	if err != nil {
		t.Fatal(err)
	}
	commands := m.File(glovebox.ProjectCommands).Text
	if !strings.Contains(commands, "- `grep hello hello.txt` passes") || !strings.Contains(commands, "- To run it: cat hello.txt <!--") {
		t.Errorf("commands are\n%s", commands)
	}
	if _, err := o.Projects.Change(w.ctx(), "t", "web", func(m *project.Memory) error {
		return m.Set(glovebox.ProjectFile{Name: "people.md", Text: "Ask Ada.\n"}, time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	id = w.submit(in("web", "t"))
	got := recalled(id)
	if len(got) != 4 || !strings.HasSuffix(got["mistakes.md"], "\n- Port 3000 is taken.\n") || !strings.HasSuffix(got["conventions.md"], "\n- Use tabs.\n") ||
		got["people.md"] != "Ask Ada.\n" || !strings.Contains(got["commands.md"], "`grep hello hello.txt` passes") || strings.Contains(got["commands.md"], "<!--") {
		t.Errorf("the second job was told %q", got)
	}
	types := w.types(id)
	if slices.Index(types, glovebox.EventProject) > slices.Index(types, glovebox.EventModelRequested) {
		t.Errorf("events are %v", types)
	}
	for name, job := range map[string]func(*glovebox.Created){"another tenant's": in("web", "u"), "another project's": in("app", "t"), "no project's": in("", "t")} {
		if got := recalled(w.submit(job)); len(got) != 0 {
			t.Errorf("%s job was told %v", name, got)
		}
	}
	before, err := o.Projects.Change(w.ctx(), "t", "web", func(m *project.Memory) error {
		m.Off, m.Files = true, nil
		return m.Set(glovebox.ProjectFile{Name: "x", Text: "x"}, time.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := recalled(w.submit(in("web", "t"))); len(got) != 0 {
		t.Errorf("though it is off, a job was told %v", got)
	}
	if after, err := o.Projects.Get(w.ctx(), "t", "web"); err != nil || mustJSON(after) != mustJSON(before) {
		t.Errorf("though it is off, it became %s, %v", mustJSON(after), err)
	}
	w.awaitNoSandbox(worker)
}
