package tool

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// testResults is what came out of running tests.
type testResults struct {
	passed, failed, skipped int
	failures                []testFailure
}

// testFailure is one test that failed.
type testFailure struct {
	name    string
	place   string // file:line, where known
	message string
}

// Bounds of what is shown of failures.
const (
	shownFailures  = 20
	failureLines   = 12
	failureMessage = 700 // bytes
)

// text is the short form for the model.
func (t testResults) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed", t.passed, t.failed)
	if t.skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped", t.skipped)
	}
	b.WriteByte('\n')
	for i, f := range t.failures {
		if i == shownFailures {
			fmt.Fprintf(&b, "\n... and %d more failures\n", len(t.failures)-i)
			break
		}
		b.WriteString("\nFAIL " + clip.Short(strings.TrimSpace(f.name), 300))
		if f.place != "" {
			b.WriteString("  (" + clip.Short(f.place, 300) + ")")
		}
		b.WriteByte('\n')
		for _, l := range shortMessage(f.message) {
			b.WriteString("  " + l + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shortMessage is the beginning of a message, without blank lines and without
// what frames of the runner itself there are.
func shortMessage(s string) []string {
	var lines []string
	total := 0
	for l := range strings.Lines(cleanText([]byte(s))) {
		l = strings.TrimRight(l, " \t\n")
		if strings.TrimSpace(l) == "" || foreign.MatchString(l) {
			continue
		}
		l = clip.Short(l, 300)
		if total += len(l); len(lines) == failureLines || total > failureMessage {
			return append(lines, "...")
		}
		lines = append(lines, l)
	}
	return lines
}

// foreign are the places in a message that are not the project's.
var foreign = regexp.MustCompile(`node_modules/|\(?node:|at new Promise|site-packages/|/lib/python|/go/src/|/rustc/`)

var placePattern = regexp.MustCompile(`(?:file://)?((?:/|\.{0,2}/)?[\w@./-]+\.\w+):(\d+)`)

// placeIn finds the first file and line in a message that is the project's.
func placeIn(s string) string {
	for _, m := range placePattern.FindAllStringSubmatch(s, 50) {
		if foreign.MatchString(m[1]) {
			continue
		}
		return m[1] + ":" + m[2]
	}
	return ""
}

// parseJest reads the report that jest and vitest share.
func parseJest(report []byte, _ string) (testResults, bool) {
	var r struct {
		Passed  int `json:"numPassedTests"`
		Failed  int `json:"numFailedTests"`
		Pending int `json:"numPendingTests"`
		Todo    int `json:"numTodoTests"`
		Files   []struct {
			Name    string `json:"name"`
			Status  string `json:"status"`
			Message string `json:"message"`
			Tests   []struct {
				FullName string   `json:"fullName"`
				Status   string   `json:"status"`
				Messages []string `json:"failureMessages"`
			} `json:"assertionResults"`
		} `json:"testResults"`
	}
	if json.Unmarshal(report, &r) != nil {
		return testResults{}, false
	}
	t := testResults{passed: r.Passed, failed: r.Failed, skipped: r.Pending + r.Todo}
	for _, f := range r.Files {
		failures := 0
		for _, a := range f.Tests {
			if a.Status != "failed" {
				continue
			}
			failures++
			message := strings.Join(a.Messages, "\n")
			place := placeIn(message)
			if place == "" {
				place = f.Name
			}
			t.failures = append(t.failures, testFailure{a.FullName, place, message})
		}
		if f.Status == "failed" && failures == 0 { // it could not be loaded
			t.failures = append(t.failures, testFailure{f.Name, "", f.Message})
			t.failed++
		}
	}
	return t, true
}

// junitSuite is a test suite in a JUnit report; suites nest.
type junitSuite struct {
	Suites []junitSuite `xml:"testsuite"`
	Cases  []struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		File    string      `xml:"file,attr"`
		Line    string      `xml:"line,attr"`
		Failure *junitFault `xml:"failure"`
		Error   *junitFault `xml:"error"`
		Skipped *junitFault `xml:"skipped"`
	} `xml:"testcase"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// parseJUnit reads a JUnit report.
func parseJUnit(report []byte, _ string) (testResults, bool) {
	var t testResults
	var root junitSuite
	if len(report) == 0 || xml.Unmarshal(report, &root) != nil {
		return t, false
	}
	var walk func(s junitSuite, depth int)
	walk = func(s junitSuite, depth int) {
		for _, c := range s.Cases {
			fault := c.Failure
			if fault == nil {
				fault = c.Error
			}
			switch {
			case fault != nil:
				t.failed++
				t.failures = append(t.failures, junitFailure(c.Class, c.Name, c.File, fault))
			case c.Skipped != nil:
				t.skipped++
			default:
				t.passed++
			}
		}
		if depth > 100 {
			return
		}
		for _, inner := range s.Suites {
			walk(inner, depth+1)
		}
	}
	walk(root, 0)
	return t, true
}

func junitFailure(class, name, file string, fault *junitFault) testFailure {
	if class != "" && class != "test" {
		name = class + " " + name
	}
	message := fault.Text
	if strings.TrimSpace(message) == "" {
		message = fault.Message
	}
	if _, cause, ok := strings.Cut(message, "cause: "); ok && strings.Contains(message, "ERR_TEST_FAILURE") { // node's wrapping
		message = cause
	}
	place := ""
	for _, m := range placePattern.FindAllStringSubmatch(message, 50) { // the last one is where it failed
		if file == "" || strings.HasSuffix(m[1], file) {
			place = m[1] + ":" + m[2]
		}
	}
	if file == "" {
		place = placeIn(message)
	}
	if lines := failingLines(message); lines != "" {
		message = lines
	}
	return testFailure{name, place, message}
}

// failingLines are the lines that pytest marks: the statement and the error.
func failingLines(message string) string {
	var b strings.Builder
	for l := range strings.Lines(message) {
		if strings.HasPrefix(l, "E ") || strings.HasPrefix(l, "> ") {
			b.WriteString(l)
		}
	}
	return b.String()
}

// parseGo reads the events of go test -json.
func parseGo(report []byte, output string) (testResults, bool) {
	if len(report) > 0 {
		output = string(report)
	}
	var t testResults
	outputs := map[string]*strings.Builder{}
	seen := false
	failedIn := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output, ImportPath string }
		if !strings.HasPrefix(lines.Text(), "{") || json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		seen = true
		key := e.Package + e.ImportPath + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if outputs[key] == nil {
				outputs[key] = &strings.Builder{}
			}
			if outputs[key].Len() < 16<<10 {
				outputs[key].WriteString(e.Output)
			}
		case "pass", "skip", "fail", "build-fail":
			t.goEvent(e.Action, key, e.Package, e.Test, outputs, failedIn)
		}
	}
	return t, seen
}

func (t *testResults) goEvent(action, key, pkg, test string, outputs map[string]*strings.Builder, failedIn map[string]int) {
	text := ""
	if b := outputs[key]; b != nil {
		text = b.String()
	}
	switch {
	case action == "build-fail":
		t.failed++
		t.failures = append(t.failures, testFailure{"build of " + strings.TrimSpace(key), placeIn(text), text})
		name, _, _ := strings.Cut(key, " ")
		failedIn[name]++
	case test == "":
		if action == "fail" && failedIn[pkg] == 0 && !strings.Contains(text, "[build failed]") { // a panic, or TestMain
			t.failed++
			t.failures = append(t.failures, testFailure{pkg, placeIn(text), text})
		}
	case action == "pass":
		t.passed++
	case action == "skip":
		t.skipped++
	case action == "fail":
		failedIn[pkg]++
		t.failed++
		var kept strings.Builder
		for l := range strings.Lines(text) {
			if s := strings.TrimSpace(l); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- ") {
				kept.WriteString(l)
			}
		}
		if kept.Len() > 0 || !strings.Contains(test, "/") {
			t.failures = append(t.failures, testFailure{pkg + " " + test, placeIn(text), kept.String()})
		}
	}
}

var (
	cargoResult = regexp.MustCompile(`(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored`)
	cargoFailed = regexp.MustCompile(`(?ms)^---- (\S+) (?:stdout|stderr) ----\n(.*?)(?:\n\n|\z)`)
	mochaCounts = regexp.MustCompile(`(?m)^\s+(\d+) (passing|failing|pending)\b`)
	mochaFailed = regexp.MustCompile(`(?m)^  (\d+)\) (.*)$`)
	unittestRan = regexp.MustCompile(`(?m)^Ran (\d+) tests? in`)
	unittestEnd = regexp.MustCompile(`(?m)^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)
	unittestOne = regexp.MustCompile(`(?m)^(?:ERROR|FAIL): (.*)\n(?:.*\n)?-{20,}\n((?:.+\n)*)`)
)

// parseCargo reads what cargo test prints.
func parseCargo(_ []byte, output string) (testResults, bool) {
	var t testResults
	all := cargoResult.FindAllStringSubmatch(output, -1)
	for _, m := range all {
		t.passed += number(m[1], 0)
		t.failed += number(m[2], 0)
		t.skipped += number(m[3], 0)
	}
	for _, m := range cargoFailed.FindAllStringSubmatch(output, 1000) {
		t.failures = append(t.failures, testFailure{m[1], placeIn(m[2]), m[2]})
	}
	return t, len(all) > 0
}

// parseMocha reads what mocha's usual reporter prints.
func parseMocha(_ []byte, output string) (testResults, bool) {
	var t testResults
	counts := mochaCounts.FindAllStringSubmatchIndex(output, -1)
	end := 0
	for _, m := range counts {
		n := number(output[m[2]:m[3]], 0)
		switch output[m[4]:m[5]] {
		case "passing":
			t.passed = n
		case "failing":
			t.failed = n
		default:
			t.skipped = n
		}
		end = m[1]
	}
	details := output[end:]
	heads := mochaFailed.FindAllStringSubmatchIndex(details, 1000)
	for i, m := range heads {
		to := len(details)
		if i+1 < len(heads) {
			to = heads[i+1][0]
		}
		body := details[m[1]:to]
		title, message, _ := strings.Cut(strings.TrimLeft(body, "\n"), ":\n")
		t.failures = append(t.failures, testFailure{details[m[4]:m[5]] + " " + strings.TrimSpace(title), placeIn(message), message})
	}
	return t, len(counts) > 0
}

// parsePython reads the report of pytest, or what unittest prints.
func parsePython(report []byte, output string) (testResults, bool) {
	if t, ok := parseJUnit(report, output); ok {
		return t, true
	}
	var t testResults
	ran := unittestRan.FindStringSubmatch(output)
	end := unittestEnd.FindStringSubmatch(output)
	if ran == nil || end == nil {
		return t, false
	}
	for part := range strings.SplitSeq(end[1], ", ") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "failures" || name == "errors":
			t.failed += n
		case name == "skipped":
			t.skipped += n
		}
	}
	t.passed = max(0, number(ran[1], 0)-t.failed-t.skipped)
	for _, m := range unittestOne.FindAllStringSubmatch(output, 1000) {
		t.failures = append(t.failures, testFailure{m[1], placeIn(strings.ReplaceAll(m[2], `", line `, ":")), m[2]})
	}
	return t, true
}

// parseAny tries what can be recognised in the output of a script that runs
// who knows what.
func parseAny(report []byte, output string) (testResults, bool) {
	for _, parse := range []func([]byte, string) (testResults, bool){parseGo, parseCargo, parsePython} {
		if t, ok := parse(report, output); ok {
			return t, true
		}
	}
	return testResults{}, false
}
