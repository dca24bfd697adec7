package membench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Figure is one number of a row.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "share", "ms", "MiB", "tokens", "count", ...
}

// Row is what was measured for one thing, ours or a peer's.
type Row struct {
	Group   string   `json:"group"` // of [Groups]
	Name    string   `json:"name"`
	Goal    string   `json:"goal,omitempty"` // empty for peers
	Figures []Figure `json:"figures"`
	Note    string   `json:"note,omitempty"`
	Load    string   `json:"load"` // of the machine, when it was measured: 1 minute
}

// Report is what a run of the benchmark measured.
type Report struct {
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	Load    string    `json:"load"` // of 1, 5 and 15 minutes before it began
	Seconds float64   `json:"seconds"`
	Notes   []string  `json:"notes"` // what was measured, and how
	Skipped []string  `json:"skipped,omitempty"`
	Rows    []Row     `json:"rows"`
}

// load returns the machine's load of 1, 5 and 15 minutes, empty where it is
// not known.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(raw))
	return strings.Join(f[:min(len(f), 3)], " ")
}

func minute() string {
	one, _, _ := strings.Cut(load(), " ")
	return one
}

func machine() string {
	return fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Write writes the report as tables in Markdown.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "machine: %s\nload before: %s\n", r.Machine, r.Load)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	group := ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(&b, "\n%s\n\n| what | figures | goal | load |\n| --- | --- | --- | --- |\n", titles[group])
		}
		figures := make([]string, len(row.Figures))
		for i, f := range row.Figures {
			figures[i] = f.Name + " " + f.text()
		}
		name := row.Name
		if row.Note != "" {
			name += " (" + row.Note + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, strings.Join(figures, ", "), row.Goal, row.Load)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "\nleft out: %s\n", s)
	}
	fmt.Fprintf(&b, "\n%.0f s, load after: %s\n", r.Seconds, load())
	_, err := io.WriteString(w, b.String())
	return err
}

// text returns a figure's value as people read it.
func (f Figure) text() string {
	switch f.Unit {
	case "share":
		return strconv.FormatFloat(f.Value, 'f', 3, 64)
	case "percent":
		return strconv.FormatFloat(f.Value, 'f', 1, 64) + "%"
	case "count":
		return strconv.FormatFloat(f.Value, 'f', -1, 64)
	case "tokens":
		return size(f.Value)
	case "x":
		return strconv.FormatFloat(f.Value, 'f', 2, 64) + "x"
	case "rate":
		return strconv.FormatFloat(f.Value, 'f', 2, 64)
	}
	digits := 1
	if f.Value < 10 {
		digits = 2
	}
	return strconv.FormatFloat(f.Value, 'f', digits, 64) + " " + f.Unit
}

// size returns a number of tokens in short.
func size(n float64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'f', 2, 64) + "M"
	case n >= 1e4:
		return strconv.FormatFloat(n/1e3, 'f', 1, 64) + "k"
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}
