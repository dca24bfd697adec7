package tool

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/net/html"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of tables and pages that a kernel shows.
const (
	maxTableRows = 200
	maxTableCols = 50
	maxCellText  = 200
	maxHTMLText  = 64 << 10
)

// tableText returns the tables of a page as lines of cells, which are much
// shorter than the page and, for wide ones, than the text that libraries make
// of them. What stands between the tables (pandas tells the size there)
// follows as text.
func tableText(page []byte) string {
	t := tableReader{z: html.NewTokenizer(bytes.NewReader(page))}
	t.z.SetMaxBuf(1 << 20)
	for t.next() {
	}
	return strings.Trim(t.out.String(), "\n")
}

// tableReader reads tokens into lines.
type tableReader struct {
	z    *html.Tokenizer
	out  strings.Builder
	row  []string
	cell *strings.Builder // nil outside cells
	skip string           // the element whose contents are not shown
	rows int
}

func (t *tableReader) next() bool {
	switch t.z.Next() {
	case html.ErrorToken:
		t.endRow()
		return false
	case html.StartTagToken:
		t.start()
	case html.EndTagToken:
		t.end()
	case html.TextToken:
		if t.skip == "" {
			t.text(string(t.z.Text()))
		}
	}
	return t.out.Len() < maxHTMLText
}

func (t *tableReader) start() {
	name, _ := t.z.TagName()
	switch n := string(name); n {
	case "style", "script", "head":
		t.skip = n
	case "tr":
		t.endRow()
	case "td", "th":
		t.endCell()
		t.cell = &strings.Builder{}
	case "br":
		t.text(" ")
	}
}

func (t *tableReader) end() {
	name, _ := t.z.TagName()
	switch n := string(name); n {
	case t.skip:
		t.skip = ""
	case "td", "th":
		t.endCell()
	case "tr", "table":
		t.endRow()
	}
}

func (t *tableReader) text(s string) {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return
	}
	if t.cell == nil {
		t.out.WriteString(cleanText([]byte(s)) + "\n")
		return
	}
	if t.cell.Len() > maxCellText {
		return
	}
	if t.cell.Len() > 0 {
		t.cell.WriteByte(' ')
	}
	t.cell.WriteString(s)
}

func (t *tableReader) endCell() {
	if t.cell == nil {
		return
	}
	if len(t.row) <= maxTableCols {
		s := clip.Short(strings.ReplaceAll(cleanText([]byte(t.cell.String())), "|", "\\|"), maxCellText)
		if len(t.row) == maxTableCols {
			s = "..."
		}
		t.row = append(t.row, s)
	}
	t.cell = nil
}

func (t *tableReader) endRow() {
	t.endCell()
	if len(t.row) == 0 {
		return
	}
	if t.rows++; t.rows <= maxTableRows {
		t.out.WriteString(strings.TrimRight(strings.Join(t.row, " | "), " ") + "\n")
	} else if t.rows == maxTableRows+1 {
		fmt.Fprintf(&t.out, "[more rows than %d are left out]\n", maxTableRows)
	}
	t.row = t.row[:0]
}

// plainHTML returns the text of a page.
func plainHTML(page []byte) string { return tableText(page) }
