package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/tool/notebook"
)

// Where cells are recorded, and how much of them.
const (
	notebookDir     = "notebooks"
	notebookBase    = "session"
	maxNotebook     = 8 << 20 // bytes, after which another one is begun
	maxNotebooks    = 99
	maxRecordedText = 64 << 10 // bytes of one stream or representation
	maxRecorded     = 3 << 20  // bytes of all outputs of a cell
)

// recording lets one cell of a job at a time into its notebook; jobs share
// locks, so that none has to be kept.
var recording [64]sync.Mutex

func recordingLock(env *Env) *sync.Mutex {
	h := fnv.New32a()
	if env.Job != nil {
		h.Write([]byte(env.Job.ID))
	}
	return &recording[h.Sum32()%uint32(len(recording))]
}

// magics make cells of other languages run in a notebook of Python, if not
// with the state that they had.
var magics = map[string]string{"bash": "%%bash\n", "typescript": "%%script deno run --allow-all --ext=ts -\n"}

// recordCell adds a cell to the job's notebook. It returns a note if it could
// not: that undoes nothing of what the cell did.
func recordCell(ctx context.Context, env *Env, cell guest.Cell, o *cellOutput, res guest.CellResult, left bool) string {
	language := cell.Language
	if language == "" {
		language = "python"
		if magics[cell.Kernel] != "" {
			language = cell.Kernel
		}
	}
	c := notebook.NewCell(magics[language]+cell.Code, res.Count)
	c.Outputs = recordedOutputs(o, res.Count)
	about := map[string]any{"kernel": cell.Kernel, "language": language, "status": res.Status}
	if left {
		about["status"] = "running"
	}
	c.Metadata["glovebox"] = about
	if language != "python" {
		c.Metadata["vscode"] = map[string]any{"languageId": map[string]string{"bash": "shellscript"}[language]}
		if language == "typescript" {
			c.Metadata["vscode"] = map[string]any{"languageId": language}
		}
	}
	return editNotebook(ctx, env, func(n *notebook.Notebook) error { return n.Add(c) })
}

// recordEnd adds to the recorded cell of a kernel that was left running what
// it has come to.
func recordEnd(ctx context.Context, env *Env, kernel string, o *cellOutput, res guest.CellResult) string {
	c := notebook.NewCell("", res.Count)
	c.Outputs = recordedOutputs(o, res.Count)
	return editNotebook(ctx, env, func(n *notebook.Notebook) error {
		found, err := n.Replace(c, func(old notebook.Cell) bool {
			about, _ := old.Metadata["glovebox"].(map[string]any)
			if about["kernel"] != kernel || about["status"] != "running" {
				return false
			}
			about["status"] = res.Status
			c.Metadata = old.Metadata
			return true
		})
		if err == nil && !found {
			return errNothingToRecord
		}
		return err
	})
}

var errNothingToRecord = glovebox.Errorf(glovebox.CodeNotFound, "no recorded cell is running")

// editNotebook reads the newest notebook, or begins one, changes and writes it.
func editNotebook(ctx context.Context, env *Env, change func(*notebook.Notebook) error) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
	defer cancel()
	mu := recordingLock(env)
	mu.Lock()
	defer mu.Unlock()
	name, n, note, err := openNotebook(ctx, env)
	if err == nil {
		if err = change(n); err == errNothingToRecord { //nolint:errorlint // it is our own
			return ""
		}
	}
	var data []byte
	if err == nil {
		data, err = n.Bytes()
	}
	if err == nil {
		err = env.Guest.WriteFile(ctx, name, data, 0)
	}
	if err != nil {
		return "; the cell could not be recorded in " + name + ": " + clip.Short(plain(err), 200)
	}
	return note
}

// openNotebook returns the notebook to add to: the newest that is there, or a
// new one beside it if that is damaged or full.
func openNotebook(ctx context.Context, env *Env) (name string, n *notebook.Notebook, note string, err error) {
	newest := 1
	name = notebookName(newest)
	entries, _, err := env.Guest.ReadDir(ctx, notebookDir)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return name, notebook.New(), "", nil
	}
	if err != nil {
		return name, nil, "", err
	}
	there := false
	for _, e := range entries {
		if i := notebookNumber(path.Base(e.Path)); i >= newest {
			newest, there = i, true
		}
	}
	name = notebookName(newest)
	if !there {
		return name, notebook.New(), "", nil
	}
	data, size, err := env.Guest.ReadFile(ctx, name, 0, maxNotebook)
	why := "is full"
	if err == nil && size <= maxNotebook {
		if n, err = notebook.Parse(data); err == nil {
			return name, n, "", nil
		}
		why = "can't be added to (" + clip.Short(err.Error(), 120) + ")"
	} else if err != nil {
		why = "can't be read (" + clip.Short(plain(err), 120) + ")"
	}
	if newest >= maxNotebooks || ctx.Err() != nil {
		return name, nil, "", fmt.Errorf("it %s", why)
	}
	next := notebookName(newest + 1)
	return next, notebook.New(), fmt.Sprintf("; %s %s, so %s was begun", name, why, next), nil
}

func notebookName(i int) string {
	if i == 1 {
		return notebookDir + "/" + notebookBase + ".ipynb"
	}
	return fmt.Sprintf("%s/%s-%d.ipynb", notebookDir, notebookBase, i)
}

// notebookNumber is the reverse; 0 for a file that is none of ours.
func notebookNumber(base string) int {
	if base == notebookBase+".ipynb" {
		return 1
	}
	digits, ok := strings.CutPrefix(strings.TrimSuffix(base, ".ipynb"), notebookBase+"-")
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || i < 2 || i > maxNotebooks || base != path.Base(notebookName(i)) {
		return 0
	}
	return i
}

// recordedOutputs are the outputs of a cell as a notebook keeps them, within
// bounds: the notebook is part of the project.
func recordedOutputs(o *cellOutput, count int) []notebook.Output {
	outputs := []notebook.Output{}
	room := maxRecorded
	for _, p := range o.pieces {
		size := len(p.text) + len(p.Name) + len(p.Value) + len(p.Traceback)
		for _, b := range p.Data {
			size += len(b)
		}
		if room -= min(size, maxRecordedText); room < 0 || size > maxRecorded && len(p.text) == 0 && p.Kind != "error" {
			outputs = append(outputs, notebook.Stream("stderr", fmt.Sprintf("[%d bytes of output are not recorded]\n", size)))
			continue
		}
		switch p.Kind {
		case "stdout", "stderr":
			outputs = append(outputs, notebook.Stream(p.Kind, Cut(string(p.text), maxRecordedText, "")))
		case "error":
			outputs = append(outputs, notebook.Error(clip.Short(p.Name, 1000), Cut(p.Value, maxRecordedText, ""), Cut(p.Traceback, maxRecordedText, "")))
		case "display":
			outputs = append(outputs, notebook.Display(recordedData(p.Data, &room)))
		case "result":
			outputs = append(outputs, notebook.Result(count, recordedData(p.Data, &room)))
		}
	}
	return outputs
}

func recordedData(data map[string][]byte, room *int) map[string]any {
	out := map[string]any{}
	for t, b := range data {
		image := strings.HasPrefix(t, "image/") && t != "image/svg+xml"
		switch {
		case image && len(b) <= *room:
			*room -= len(b)
			out[t] = b
		case image:
			out["text/plain"] = fmt.Sprintf("[an image of %d bytes is not recorded]", len(b))
		case strings.HasSuffix(t, "json") && len(b) <= maxRecordedText && json.Valid(b): // else the notebook is none
			out[t] = json.RawMessage(b)
		case !strings.HasSuffix(t, "json") && len(b) <= 4*maxRecordedText:
			if _, set := out[t]; !set {
				out[t] = string(b)
			}
		}
	}
	return out
}
