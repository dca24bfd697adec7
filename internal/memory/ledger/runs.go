package ledger

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// run is a command, with all its runs.
type run struct {
	label string // as it was written, on one line
	cwd   string
	trail trail
	how   string // it ended the last time
	fact  string // of its result, in short: "12 passed, 1 failed"
	looks bool   // it only looks at things, and never failed
	runs  int64
	good  int64 // event of the newest run that ended well; 0 if none did
	bad   int64 // event of the newest that did not
}

// setCommand notes what a call runs.
func setCommand(c *call, script, cwd string) {
	c.label = one(script, maxCommand)
	c.cmd = parse(script, cwd)
	c.key = c.label + "\x00" + place(".", cwd)
	if len(script) > maxCommand {
		h := fnv.New64a()
		h.Write([]byte(script))
		c.key += "\x00" + strconv.FormatUint(h.Sum64(), 36)
	}
}

func shellInput(l *Ledger, c *call, in input) {
	var script, cwd string
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "command":
			script = text(value, maxScript)
		case "cwd":
			cwd = text(value, 4096)
		}
		return true
	})
	if script == "" {
		return
	}
	setCommand(c, script, cwd)
	urls(script, func(u string) { l.linked(c.seq, u, "named in a command") })
}

// shellResult reads how a command ended, or that it goes on.
func (l *Ledger) shellResult(seq int64, c call, f glovebox.ToolFinished) {
	if c.label == "" {
		return
	}
	said := resultText(f)
	e := status(said)
	if f.Unknown {
		e = ending{}
	}
	l.ran(seq, c, e, said, f, "")
	if e.running && e.id != "" {
		l.serving(seq, e.id, c, said)
	}
	if !f.Unknown {
		for _, p := range c.cmd.reads() {
			if !f.IsError {
				l.touched(seq, p, "", "")
			}
		}
	}
}

// ran records a run, and what follows from how it ended.
func (l *Ledger) ran(seq int64, c call, e ending, said string, f glovebox.ToolFinished, fact string) {
	r := l.commands.touch(c.key)
	if r.runs == 0 {
		r.label, r.cwd, r.looks = c.label, place(".", c.cmd.cwd), c.cmd.looks
	}
	r.runs++
	r.trail.add(seq)
	r.fact = one(fact, maxFact)
	hidden := "" // an error that the exit code does not tell
	if c.cmd.unsure && !c.cmd.looks && !f.IsError {
		hidden = plainError(said)
	}
	switch {
	case f.Unknown:
		r.how = "outcome unknown"
		return
	case !e.known && f.IsError:
		r.how = "failed"
	case !e.known:
		r.how = "done"
	default:
		r.how = e.String()
	}
	switch {
	case e.running:
		return
	case f.IsError || hidden != "" || e.known && !e.passed():
		r.bad = seq
		if hidden != "" {
			r.how += ", but its output tells of an error"
		}
		l.failed(seq, c, said, hidden)
	default:
		r.good = seq
		l.passed(seq, c.cmd.stem, c.label)
		c.cmd.installs(func(manager, pkg string) { l.installed(seq, manager, pkg, "") })
	}
	if !c.cmd.looks {
		l.acting = seq
		if c.cmd.removes {
			l.removes = c.label
		}
	}
}

// failed records the error of a command that did not end well.
func (l *Ledger) failed(seq int64, c call, said, line string) {
	if c.cmd.looks { // grep that finds nothing
		return
	}
	l.commandNeeds(c)
	if line == "" {
		line = errorLine(said)
	}
	l.met(seq, c.cmd.stem, line, c.tool == "code", filesIn(said, c.cmd.cwd))
}

// commandNeeds keeps a command that failed where it can be seen.
func (l *Ledger) commandNeeds(c call) {
	if r := l.commands.get(c.key); r != nil {
		r.looks = false
	}
}

func testsInput(_ *Ledger, c *call, in input) {
	var args []string
	var cwd string
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "args":
			args = texts(value, 50, maxPath)
		case "cwd":
			cwd = text(value, 4096)
		}
		return true
	})
	setCommand(c, "run_tests", cwd)
	if len(args) > 0 {
		more := one(strings.Join(args, " "), maxCommand)
		c.label += " " + more
		c.key += "\x00" + more
		c.cmd.stem += ": " + more
	}
	c.cmd.looks = false
}

// testsResult reads how a run of tests came out: the runner and how it ended
// are the first line, what passed the second, then come the failures.
func (l *Ledger) testsResult(seq int64, c call, f glovebox.ToolFinished) {
	said := resultText(f)
	e := status(said)
	fact := ""
	var failures []string
	if !e.known {
		first, rest, _ := strings.Cut(said, "\n")
		if _, how, ok := strings.Cut(first, ": "); ok {
			e = phrase(how)
		}
		second, _, _ := strings.Cut(rest, "\n")
		if strings.Contains(second, " passed") {
			fact = second
		}
		lines(rest, func(line string) bool {
			if strings.HasPrefix(line, "FAIL ") {
				failures = append(failures, line)
			}
			return len(failures) < perRun
		})
	}
	if f.Unknown {
		e = ending{}
	}
	if e.running && e.id != "" {
		l.serving(seq, e.id, c, "")
	}
	if len(failures) == 0 {
		l.ran(seq, c, e, said, f, fact)
		return
	}
	quiet := c
	quiet.cmd.looks = true // its errors follow, one for each test
	l.ran(seq, quiet, e, said, f, fact)
	l.acting = seq
	l.commandNeeds(c)
	if len(failures) < perRun {
		l.vanished(seq, c, failures)
	}
	for _, line := range failures {
		l.met(seq, c.cmd.stem, line, false, filesIn(line, c.cmd.cwd))
	}
}

// vanished records that of the errors of a run of tests those that are not
// among the failures any more went away.
func (l *Ledger) vanished(seq int64, c call, failures []string) {
	still := make([]string, 0, len(failures))
	for _, line := range failures {
		still = append(still, signature(line))
	}
	l.open = slices.DeleteFunc(l.open, func(f *failure) bool {
		if f.stem != c.cmd.stem || slices.Contains(still, signature(f.first)) {
			return false
		}
		f.solve(seq, c.label, l.changes)
		return true
	})
}

func codeInput(l *Ledger, c *call, in input) {
	action, language, script := "run", "python", ""
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "action":
			action = text(value, 64)
		case "language":
			language = text(value, 64)
		case "code":
			script = text(value, maxScript)
		}
		return true
	})
	if action != "run" || strings.TrimSpace(script) == "" {
		return
	}
	if language == "bash" {
		setCommand(c, script, "")
		return
	}
	line := strings.TrimSpace(script)
	line, _, _ = strings.Cut(line, "\n")
	c.label = one("code, "+language+": "+line, maxCommand)
	c.key = c.label
	c.cmd = command{stem: c.label}
	urls(script, func(u string) { l.linked(c.seq, u, "named in code") })
}

func (l *Ledger) codeResult(seq int64, c call, f glovebox.ToolFinished) {
	if c.label == "" {
		return
	}
	e := ending{}
	if line := lastLine(resultText(f)); strings.Contains(line, "still runs in kernel") {
		e = ending{known: true, running: true}
	}
	l.ran(seq, c, e, resultText(f), f, "")
}
