package tool

import (
	"os"
	"strings"
	"testing"
)

// TestReports reads what the runners really wrote about the same few tests:
// one that passes, one or more that fail, one that is skipped.
func TestReports(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file                    string
		parse                   func([]byte, string) (testResults, bool)
		passed, failed, skipped int
		want                    []string
	}{
		{"vitest.json", parseJest, 1, 2, 1, []string{
			"FAIL sum adds  (/workspace/sum.test.js:4)\n  AssertionError: expected -1 to be 3",
			"FAIL /workspace/broken.test.js\n  Cannot find module './missing.js'",
		}},
		{"jest.json", parseJest, 1, 2, 0, []string{
			"FAIL sum adds  (/workspace/j/a.test.cjs:1)\n  Error: expect(received).toBe(expected)", "Expected: 3", "Cannot find module './missing'",
		}},
		{"node.xml", parseJUnit, 1, 2, 1, []string{"FAIL adds  (/workspace/n/a.test.mjs:2)\n  AssertionError", "FAIL inner  (/workspace/n/a.test.mjs:5)\n  Error: boom"}},
		{"pytest.xml", parsePython, 1, 2, 1, []string{
			"FAIL test_a.T test_add  (test_a.py:5)\n  >       self.assertEqual(add(1,2),3)\n  E       AssertionError: -1 != 3", "FAIL test_a.T test_err  (test_a.py:10)",
		}},
		{"unittest.txt", parsePython, 1, 2, 1, []string{"FAIL test_err (test_a.T.test_err)  (/workspace/test_a.py:10)", "AssertionError: -1 != 3"}},
		{"go.json", parseGo, 1, 4, 1, []string{
			"FAIL ex.org/g/a TestAdd/sub  (a_test.go:3)\n      a_test.go:3: got -1, want 3",
			"FAIL build of ex.org/g/b [ex.org/g/b.test]  (b/b_test.go:3)",
			"FAIL ex.org/g/c TestPanic  (/workspace/c/c_test.go:3)\n  panic: assignment to entry in nil map",
		}},
		{"cargo.txt", parseCargo, 1, 1, 1, []string{"FAIL tests::adds  (src/lib.rs:4)", "left: -1"}},
		{"mocha.txt", parseMocha, 1, 1, 1, []string{"FAIL sum adds  (m/a.cjs:2)\n        AssertionError [ERR_ASSERTION]: -1 == 3"}},
	}
	for _, tt := range tests {
		data, err := os.ReadFile("testdata/reports/" + tt.file)
		if err != nil {
			t.Fatal(err)
		}
		var got testResults
		var ok bool
		if strings.HasSuffix(tt.file, ".txt") {
			got, ok = tt.parse(nil, string(data))
		} else {
			got, ok = tt.parse(data, "")
		}
		if !ok || got.passed != tt.passed || got.failed != tt.failed || got.skipped != tt.skipped {
			t.Errorf("%s: %v, %d passed, %d failed, %d skipped", tt.file, ok, got.passed, got.failed, got.skipped)
		}
		for _, w := range tt.want {
			if !strings.Contains(got.text(), w) {
				t.Errorf("%s: got\n%s\nwithout\n%s", tt.file, got.text(), w)
			}
		}
	}
}

func TestReportsOfNothing(t *testing.T) {
	t.Parallel()
	for name, parse := range map[string]func([]byte, string) (testResults, bool){
		"jest": parseJest, "junit": parseJUnit, "go": parseGo, "cargo": parseCargo, "mocha": parseMocha, "python": parsePython, "any": parseAny,
	} {
		for _, text := range []string{"", "{", "<", "Segmentation fault\n"} {
			if got, ok := parse([]byte(text), text); ok {
				t.Errorf("%s reads %q as %+v", name, text, got)
			}
		}
	}
}

func TestReportBound(t *testing.T) {
	t.Parallel()
	var r testResults
	for range 500 {
		r.failed++
		r.failures = append(r.failures, testFailure{strings.Repeat("name", 1000), "f.go:1", strings.Repeat("message\n", 1000)})
	}
	if got := r.text(); len(got) > OutputBound || !strings.Contains(got, "and 480 more failures") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	good := map[string][]string{
		"apt": {"jq", "g++", "libstdc++6", "python3.11", "jq=1.7.1-3", "libc6:amd64", "imagemagick=8:6.9.11.60+dfsg-1.6"},
		"npm": {"react", "react@18.3.1", "@types/node", "@types/node@^20", "lodash.debounce", "left-pad@latest", "vite@~5.2.0", "react@>=18", "JSONStream"},
		"pip": {"flask", "flask==3.0.3", "uvicorn[standard]", "flask>=3,<4", "zope.interface", "torch==2.1.0+cpu", "a", "ruamel.yaml~=0.18"},
	}
	bad := map[string][]string{
		"apt": {"", "-o", "jq-", "jq -o x", "./x.deb", "/tmp/x.deb", "jq;ls", "jq/testing", "JQ", "--reinstall", "jq\n", "a*", "jq=", "jq=1-"},
		"npm": {"", "-g", "--prefix=/", "./x", "../x", "/x", "git+https://x/y", "user/repo", "https://x/y.tgz", "x.tgz", "react@npm:evil", "react@file:..", "a b", "@scope", "~", ".", "react@../x", "react@https://x"},
		"pip": {"", "-r", "--index-url=x", "./x", "/x", "git+https://x", "x @ https://y", "flask; ls", "x.whl", "x.tar.gz", "flask==", "a b", "."},
	}
	for manager, names := range good {
		for _, n := range names {
			if !packagePatterns[manager].MatchString(n) {
				t.Errorf("%s: %q is refused", manager, n)
			}
		}
	}
	for manager, names := range bad {
		for _, n := range names {
			if packagePatterns[manager].MatchString(n) && (manager == "apt" || !archive.MatchString(n)) {
				t.Errorf("%s: %q is accepted", manager, n)
			}
		}
	}
}
