package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// runner is a way to run a project's tests.
type runner struct {
	name   string
	script string // bash; $1 is the report to write, in the home directory, the rest are arguments for the runner
	parse  func(report []byte, output string) (testResults, bool)
	line   lineFilter // of its output; may be nil
}

// withReport begins every script: the report is $report, "$@" the arguments,
// and what is installed in the project is found.
const withReport = `report=$HOME/$1; shift; export PATH="$PWD/.venv/bin:$PATH"; `

// findRunner returns how the tests of the project in dir are run; nil if
// nothing tells.
func findRunner(ctx context.Context, env *Env, dir string) (*runner, error) {
	entries, _, err := env.Guest.ReadDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[path.Base(e.Path)] = true
	}
	read := func(name string) (string, error) {
		data, _, err := env.Guest.ReadFile(ctx, path.Join(dir, name), 0, 1<<20)
		if glovebox.CodeOf(err) == glovebox.CodeUnavailable {
			return "", err
		}
		return string(data), nil
	}
	if there["package.json"] {
		text, err := read("package.json")
		if err != nil {
			return nil, err
		}
		if r := nodeRunner(text, there); r != nil {
			return r, nil
		}
	}
	switch {
	case there["go.mod"]:
		return goRunner(), nil
	case there["Cargo.toml"]:
		return &runner{name: "cargo test", script: withReport + `export RUST_BACKTRACE=0; exec cargo test --no-fail-fast "$@"`, parse: parseCargo}, nil
	case hasPythonTests(there):
		return pythonRunner(), nil
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if !there[name] {
			continue
		}
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		for _, target := range []string{"test", "check"} {
			if regexp.MustCompile(`(?m)^` + target + `\s*:`).MatchString(text) {
				return &runner{name: "make " + target, script: withReport + "exec make " + target + ` "$@"`, parse: parseAny}, nil
			}
		}
	}
	return nil, nil
}

func goRunner() *runner {
	// Packages come last; without any, all are tested.
	script := withReport + `pkgs=./...; for a in "$@"; do case $a in ./*|.|*/*) pkgs=;; esac; done
go test -json "$@" $pkgs | tee "$report"; exit ${PIPESTATUS[0]}`
	return &runner{name: "go test", script: script, parse: parseGo, line: goLine}
}

// goLine is the text in an event of go test -json.
func goLine(line string) string {
	if !strings.HasPrefix(line, "{") {
		return line
	}
	var e struct{ Action, Output string }
	if json.Unmarshal([]byte(line), &e) != nil {
		return line
	}
	return e.Output
}

func hasPythonTests(there map[string]bool) bool {
	for _, name := range []string{"pytest.ini", "conftest.py", "tox.ini", "setup.cfg", "pyproject.toml", "setup.py", "requirements.txt"} {
		if there[name] {
			return true
		}
	}
	for name := range there {
		if strings.HasSuffix(name, ".py") && (strings.HasPrefix(name, "test_") || strings.HasSuffix(name, "_test.py")) {
			return true
		}
	}
	return false
}

// pythonRunner uses pytest if it is installed, else unittest.
func pythonRunner() *runner {
	script := withReport + `if python3 -c 'import pytest' 2>/dev/null
then exec python3 -m pytest -q --color=no -o junit_family=xunit1 --junitxml="$report" "$@"
elif [ $# -gt 0 ]; then exec python3 -m unittest "$@"
elif [ -d tests ]; then exec python3 -m unittest discover -s tests -t .
else exec python3 -m unittest discover; fi`
	return &runner{name: "python", script: script, parse: parsePython}
}

// nodeRunner reads package.json: its test script and what is installed.
func nodeRunner(text string, there map[string]bool) *runner {
	var p struct {
		Scripts         map[string]string `json:"scripts"`
		Dependencies    map[string]any    `json:"dependencies"`
		DevDependencies map[string]any    `json:"devDependencies"`
	}
	if json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	has := func(name string) bool { return p.Dependencies[name] != nil || p.DevDependencies[name] != nil }
	script := p.Scripts["test"]
	if script == "" || strings.Contains(script, "no test specified") {
		switch {
		case has("vitest"):
			return npmRunner("vitest", "npx --no-install vitest run")
		case has("jest"):
			return npmRunner("jest", "npx --no-install jest")
		case has("mocha"):
			return npmRunner("mocha", "npx --no-install mocha")
		case there["test"] || there["tests"]:
			return npmRunner("node --test", "node --test")
		}
		return nil
	}
	for _, k := range []struct{ name, sign string }{
		{"vitest", `\bvitest\b`}, {"jest", `\bjest\b|react-scripts test`}, {"mocha", `\bmocha\b`}, {"node --test", `\bnode\b.*--test\b|\btsx\b.*--test\b`},
	} {
		if regexp.MustCompile(k.sign).MatchString(script) {
			return npmRunner(k.name, "npm test --silent --")
		}
	}
	return npmRunner("npm test", "npm test --silent --")
}

// npmRunner has the named framework write its report while its usual output
// goes on.
func npmRunner(framework, command string) *runner {
	r := &runner{name: framework, script: withReport + command + ` "$@"`, parse: parseAny}
	switch framework {
	case "vitest":
		r.script = withReport + command + ` --reporter=default --reporter=json --outputFile.json="$report" "$@"`
		r.parse = parseJest
	case "jest":
		r.script = withReport + command + ` --json --outputFile="$report" "$@"`
		r.parse = parseJest
	case "mocha":
		r.parse = parseMocha
	case "node --test":
		r.script = withReport + `export NODE_OPTIONS="$NODE_OPTIONS --test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit --test-reporter-destination=$report"
` + command + ` "$@"`
		r.parse = parseJUnit
	}
	return r
}

// noRunner says that no runner was found, and where there may be one.
func noRunner(ctx context.Context, env *Env, dir string) string {
	text := fmt.Sprintf("No test runner was found in %s (looked for a test script in package.json, go.mod, Cargo.toml, Python tests, make test).", absolute(dir))
	entries, err := env.Guest.Glob(ctx, dir, "*/**/{package.json,go.mod,Cargo.toml,pyproject.toml,Makefile}", 10, false)
	if err == nil && len(entries) > 0 {
		var dirs []string
		seen := map[string]bool{}
		for _, e := range entries {
			if d := path.Dir(e.Path); !seen[d] {
				seen[d] = true
				dirs = append(dirs, absolute(path.Join(dir, d)))
			}
		}
		return text + " There are projects in " + strings.Join(dirs, ", ") + ": set cwd."
	}
	return text + " Write the tests first, or run them with shell."
}
