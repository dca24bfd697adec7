package tool_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/tool"
)

var update = flag.Bool("update", false, "write the golden files")

// TestSchemas compares all schemas with testdata/schemas.json, so that a
// change is seen: a model's cache begins with them.
func TestSchemas(t *testing.T) {
	t.Parallel()
	all := map[string]json.RawMessage{}
	for _, x := range tool.All() {
		all[x.Name] = x.Schema
	}
	got, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/schemas.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("schemas differ from %s; if that is meant, run go test -run TestSchemas -update\n%s", file, got)
	}
}

// TestSchemaForm checks what the providers have in common.
func TestSchemaForm(t *testing.T) {
	t.Parallel()
	for _, x := range tool.All() {
		var tree map[string]any
		if err := json.Unmarshal(x.Schema, &tree); err != nil {
			t.Fatalf("%s: %v", x.Name, err)
		}
		checkForm(t, x.Name, tree)
		if x.Description == "" || len(x.Description) > 2500 {
			t.Errorf("%s: its prompt has %d bytes", x.Name, len(x.Description))
		}
		for _, word := range []string{"Claude", "Anthropic", "GPT", "OpenAI", "Gemini"} {
			if strings.Contains(x.Description, word) {
				t.Errorf("%s: its prompt names %s", x.Name, word)
			}
		}
	}
}

func checkForm(t *testing.T, at string, node map[string]any) {
	t.Helper()
	for key := range node {
		allowed := []string{"type", "properties", "required", "additionalProperties", "description", "enum", "items",
			"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "anyOf"}
		if !slices.Contains(allowed, key) {
			t.Errorf("%s: keyword %q is not one that all providers take", at, key)
		}
	}
	if node["type"] == "object" {
		if node["additionalProperties"] != false {
			t.Errorf("%s: additionalProperties is not false", at)
		}
		for name, p := range node["properties"].(map[string]any) {
			checkForm(t, at+"."+name, p.(map[string]any))
		}
	}
	for _, one := range asList(node["anyOf"]) {
		checkForm(t, at+"|", one.(map[string]any))
	}
	if items, ok := node["items"].(map[string]any); ok {
		checkForm(t, at+"[]", items)
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// TestAll checks that the list is constant and complete.
func TestAll(t *testing.T) {
	t.Parallel()
	var names []string
	for _, x := range tool.All() {
		names = append(names, x.Name)
	}
	want := "shell shell_output shell_input shell_stop read_file write_file edit_file apply_patch move_file delete_file " +
		"list_files search_files install_package run_tests code read_output preview gui recall open_event note plan ask_user finish"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
