// Package notebook writes Jupyter notebooks, in version 4.5 of their format.
//
// A notebook is read, added to and written whole. What is in it already, a
// person's cells and metadata included, is kept as it is.
package notebook

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Notebook is a notebook whose cells were not looked into.
type Notebook struct {
	Cells    []json.RawMessage          `json:"cells"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	Format   int                        `json:"nbformat"`
	Minor    int                        `json:"nbformat_minor"`
}

// The version of the format that is written.
const (
	format = 4
	minor  = 5
)

// New returns an empty notebook of the Python kernel.
func New() *Notebook {
	return &Notebook{
		Cells: []json.RawMessage{},
		Metadata: map[string]json.RawMessage{
			"kernelspec":    json.RawMessage(`{"display_name": "Python 3", "language": "python", "name": "python3"}`),
			"language_info": json.RawMessage(`{"name": "python"}`),
		},
		Format: format, Minor: minor,
	}
}

// Parse reads a notebook. Its error says why it can't be added to: it is
// damaged, or of another version.
func Parse(b []byte) (*Notebook, error) {
	var n Notebook
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("it is no notebook: %w", err)
	}
	if n.Format != format || n.Minor < minor {
		return nil, fmt.Errorf("its format is %d.%d, not %d.%d", n.Format, n.Minor, format, minor)
	}
	if n.Cells == nil || n.Metadata == nil {
		return nil, errors.New("it has no cells or no metadata")
	}
	for i, c := range n.Cells {
		var head struct {
			Type string `json:"cell_type"`
		}
		if json.Unmarshal(c, &head) != nil || head.Type == "" {
			return nil, fmt.Errorf("cell %d is none", i)
		}
	}
	return &n, nil
}

// Bytes returns the notebook as a file.
func (n *Notebook) Bytes() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Cell is a code cell.
type Cell struct {
	ID       string         `json:"id"` // 1 to 64 of [0-9A-Za-z_-], unique in its notebook; Add chooses one if it is empty
	Type     string         `json:"cell_type"`
	Metadata map[string]any `json:"metadata"`
	Count    *int           `json:"execution_count"` // null if it was not counted
	Source   string         `json:"source"`
	Outputs  []Output       `json:"outputs"`
}

// NewCell returns a code cell without outputs. count is 0 if the cell was not
// counted.
func NewCell(source string, count int) *Cell {
	c := &Cell{Type: "code", Metadata: map[string]any{}, Source: clean(source), Outputs: []Output{}}
	if count > 0 {
		c.Count = &count
	}
	return c
}

// Output is one output of a cell, made with one of the functions below.
type Output map[string]any

// Stream is text written to "stdout" or "stderr".
func Stream(name, text string) Output {
	return Output{"output_type": "stream", "name": name, "text": clean(text)}
}

// Display is a display, with its representations by media type: text as
// string, bytes of images as []byte, JSON as json.RawMessage.
func Display(data map[string]any) Output {
	return Output{"output_type": "display_data", "data": bundle(data), "metadata": map[string]any{}}
}

// Result is the value of a cell.
func Result(count int, data map[string]any) Output {
	o := Display(data)
	o["output_type"] = "execute_result"
	o["execution_count"] = count
	return o
}

// Error is the error that ended a cell.
func Error(name, value, traceback string) Output {
	lines := []string{}
	if traceback != "" {
		lines = strings.Split(clean(traceback), "\n")
	}
	return Output{"output_type": "error", "ename": clean(name), "evalue": clean(value), "traceback": lines}
}

// bundle makes every representation what the format wants it to be.
func bundle(data map[string]any) map[string]any {
	out := map[string]any{}
	for t, v := range data {
		isJSON := t == "application/json" || strings.HasSuffix(t, "+json")
		switch v := v.(type) {
		case string:
			if !isJSON {
				out[t] = clean(v)
			}
		case json.RawMessage:
			if isJSON && json.Valid(v) {
				out[t] = v
			}
		default:
			out[t] = v // []byte becomes base64
		}
	}
	return out
}

func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Add appends a cell.
func (n *Notebook) Add(c *Cell) error {
	if c.ID == "" {
		c.ID = newID()
	}
	b, err := marshal(c)
	if err != nil {
		return err
	}
	n.Cells = append(n.Cells, b)
	return nil
}

// Replace puts c in the place of the last cell for which is returns true, and
// reports whether there was one. c gets its id.
func (n *Notebook) Replace(c *Cell, is func(Cell) bool) (bool, error) {
	for i := len(n.Cells) - 1; i >= 0; i-- {
		var old Cell
		if unmarshalCell(n.Cells[i], &old) != nil || !is(old) {
			continue
		}
		if old.ID != "" {
			c.ID = old.ID
		}
		c.Source = old.Source
		b, err := marshal(c)
		if err != nil {
			return false, err
		}
		n.Cells[i] = b
		return true, nil
	}
	return false, nil
}

// unmarshalCell reads a code cell; the source of a foreign one may be a list
// of lines.
func unmarshalCell(b []byte, c *Cell) error {
	var raw struct {
		ID       string          `json:"id"`
		Type     string          `json:"cell_type"`
		Metadata map[string]any  `json:"metadata"`
		Source   json.RawMessage `json:"source"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if raw.Type != "code" {
		return errors.New("it is no code")
	}
	c.ID, c.Type, c.Metadata = raw.ID, raw.Type, raw.Metadata
	if json.Unmarshal(raw.Source, &c.Source) == nil {
		return nil
	}
	var lines []string
	err := json.Unmarshal(raw.Source, &lines)
	c.Source = strings.Join(lines, "")
	return err
}

func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

func newID() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}
