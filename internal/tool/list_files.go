package tool

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed list_files.md
var listFilesPrompt string

type listFilesInput struct {
	Path    string `json:"path,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Directory; /workspace if left out."`
	Pattern string `json:"pattern,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Only files whose path below it matches, e.g. \"**/*.test.ts\"; ** is any depth. A tree of everything if left out."`
	Depth   int    `json:"depth,omitempty" jsonschema:"minimum=1,maximum=20" jsonschema_description:"How many levels of the tree to show; 4 if left out."`
	All     bool   `json:"all,omitempty" jsonschema_description:"Also .git and what .gitignore names, such as node_modules."`
}

const (
	listBound = 10_000 // entries that are asked for
	treeBound = 400    // lines that are shown
)

// rebuilt are directories of what a package manager or compiler makes. They
// are not shown unless all is set, also where no .gitignore names them.
var rebuilt = map[string]bool{"node_modules": true, ".venv": true, "__pycache__": true, ".mypy_cache": true, ".pytest_cache": true, ".gradle": true}

// rebuiltGlob leaves them out of a search.
const rebuiltGlob = "!**/{node_modules,.venv,__pycache__,.mypy_cache,.pytest_cache,.gradle}/**"

// inRebuilt returns the directory of that kind that p is in; empty if none.
func inRebuilt(p string) string {
	at := 0
	for part := range strings.SplitSeq(p, "/") {
		at += len(part)
		if rebuilt[part] && at < len(p) {
			return p[:at]
		}
		at++
	}
	return ""
}

// ListFiles returns the tool that lists files: a tree, or those that match.
func ListFiles() Tool { return readOnly(New("list_files", listFilesPrompt, listFiles)) }

func listFiles(ctx context.Context, env *Env, in listFilesInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	dir := sandboxPath(in.Path)
	e, err := env.Guest.Stat(ctx, dir)
	if err != nil {
		return fileFailed(ctx, env, dir, err)
	}
	if e.Mode.IsRegular() {
		return ErrorResult(fmt.Sprintf(`"path": %s is a file of %d bytes, not a directory`, absolute(dir), e.Size)), nil
	}
	depth := in.Depth
	if depth == 0 {
		depth = 4
	}
	entries, more, err := listed(ctx, env, dir, in, depth)
	if err != nil {
		return failed(ctx, err)
	}
	if len(entries) == 0 {
		return nothingListed(ctx, env, dir, in)
	}
	if in.Pattern != "" {
		return TextResult(flat(dir, entries, more)), nil
	}
	return TextResult(tree(dir, entries, more, depth)), nil
}

// listed returns what is to be shown, and whether there is more.
func listed(ctx context.Context, env *Env, dir string, in listFilesInput, depth int) (entries []guest.Entry, more bool, err error) {
	pattern := in.Pattern
	if pattern == "" {
		pattern = "**"
	}
	entries, err = env.Guest.Glob(ctx, dir, pattern, listBound, in.All)
	if more = len(entries) == listBound; more && in.Pattern == "" {
		// Too many, most of them far down: only as deep as is shown.
		levels := make([]string, depth+1)
		for i := range levels {
			levels[i] = strings.Repeat("*/", i) + "*"
		}
		entries, err = env.Guest.Glob(ctx, dir, "{"+strings.Join(levels, ",")+"}", listBound, in.All)
	}
	if err != nil || in.All {
		return entries, more, err
	}
	var kept []guest.Entry
	last := ""
	for _, e := range entries {
		hidden := inRebuilt(e.Path)
		switch {
		case hidden == "":
			kept = append(kept, e)
		case hidden != last && in.Pattern == "":
			kept = append(kept, guest.Entry{Path: hidden, Mode: fs.ModeDir})
		}
		last = hidden
	}
	return kept, more, nil
}

// nothingListed says that there are no files, and what there is instead.
func nothingListed(ctx context.Context, env *Env, dir string, in listFilesInput) (Result, error) {
	text := "There are no files in " + absolute(dir)
	if in.Pattern != "" {
		text = fmt.Sprintf("No file in %s matches %q", absolute(dir), in.Pattern)
	}
	if !in.All {
		text += ", apart from what .gitignore names (set all to see it)"
	}
	there, _, err := env.Guest.ReadDir(ctx, dir)
	if err != nil {
		return failed(ctx, err)
	}
	if len(there) == 0 {
		return TextResult(text + "; the directory is empty."), nil
	}
	var names []string
	for _, e := range there[:min(len(there), 20)] {
		name := clip.Short(path.Base(e.Path), 100)
		if e.Mode.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	if len(there) > len(names) {
		names = append(names, "...")
	}
	return TextResult(text + ". The directory has " + strings.Join(names, ", ") + "."), nil
}

// flat lists entries by path.
func flat(dir string, entries []guest.Entry, more bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "In %s:\n", absolute(dir))
	for i, e := range entries {
		if i == treeBound || b.Len() > OutputBound-statusRoom {
			fmt.Fprintf(&b, "... and %s more; make the pattern narrower\n", count(len(entries)-i, more))
			break
		}
		fmt.Fprintf(&b, "%s%s\n", clip.Short(e.Path, 500), size(e))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func count(n int, more bool) string {
	if more {
		return "at least " + fmt.Sprint(n)
	}
	return fmt.Sprint(n)
}

func size(e guest.Entry) string {
	switch {
	case e.Mode.IsDir():
		return "/"
	case e.Mode&fs.ModeSymlink != 0:
		return " -> " + clip.Short(e.Link, 200)
	case e.Size < 1000:
		return fmt.Sprintf("  %d B", e.Size)
	case e.Size < 1_000_000:
		return fmt.Sprintf("  %.1f kB", float64(e.Size)/1000)
	}
	return fmt.Sprintf("  %.1f MB", float64(e.Size)/1e6)
}

// node is a file or directory of a tree.
type node struct {
	name     string
	entry    guest.Entry
	children []*node
	files    int // below it
}

// tree shows entries as a tree of at most depth levels, fewer if they are too
// many to show.
func tree(dir string, entries []guest.Entry, more bool, depth int) string {
	root := &node{}
	nodes := map[string]*node{".": root}
	for _, e := range entries {
		insert(nodes, e)
	}
	root.finish()
	for ; ; depth-- {
		text, lines := root.draw(depth)
		if depth > 1 && (lines > treeBound || len(text) > OutputBound-statusRoom) {
			continue
		}
		text = absolute(dir) + "/\n" + text
		if more {
			text += fmt.Sprintf("[more than %d files: deeper ones were not looked at]\n", listBound)
		}
		return strings.TrimSuffix(Cut(text, OutputBound, ""), "\n")
	}
}

func insert(nodes map[string]*node, e guest.Entry) *node {
	p := path.Clean(e.Path)
	if n, ok := nodes[p]; ok {
		if e.Mode != 0 {
			n.entry = e
		}
		return n
	}
	n := &node{name: path.Base(p), entry: e}
	nodes[p] = n
	parent := insertDir(nodes, path.Dir(p))
	parent.children = append(parent.children, n)
	return n
}

func insertDir(nodes map[string]*node, p string) *node {
	if p == "/" {
		p = "."
	}
	if n, ok := nodes[p]; ok {
		return n
	}
	return insert(nodes, guest.Entry{Path: p, Mode: fs.ModeDir})
}

// finish sorts a tree and counts its files.
func (n *node) finish() {
	slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	for _, c := range n.children {
		if c.entry.Mode.IsDir() {
			c.finish()
			n.files += c.files
		} else {
			n.files++
		}
	}
}

func (n *node) draw(depth int) (string, int) {
	var b strings.Builder
	lines := 0
	var walk func(n *node, level int)
	walk = func(n *node, level int) {
		for _, c := range n.children {
			lines++
			b.WriteString(strings.Repeat("  ", level) + clip.Short(c.name, 200) + size(c.entry))
			if c.entry.Mode.IsDir() && level == depth && len(c.children) > 0 {
				fmt.Fprintf(&b, " (%d files)", c.files)
			}
			b.WriteByte('\n')
			if level < depth {
				walk(c, level+1)
			}
		}
	}
	walk(n, 1)
	return b.String(), lines
}
