package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// maxProblems is how many faults of one input the model is told of at once.
const maxProblems = 10

// decode checks input against schema and decodes it. The problems, of which
// there are none exactly if the input is good, each name a field, what was
// given and what is expected.
func decode[In any](schema *jsonschema.Schema, input json.RawMessage) (in In, problems []string) {
	tree, problem := parse(input)
	if problem != "" {
		return in, []string{problem}
	}
	c := checker{}
	tree = c.check(schema, "", tree)
	if len(c.problems) > 0 {
		return in, c.problems
	}
	normal, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(normal, &in)
	}
	if err != nil {
		return in, []string{err.Error()}
	}
	return in, nil
}

// inputMessage is what the model reads about a wrong input.
func inputMessage(name string, problems []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The input of %s is wrong; nothing was done.\n", name)
	for i, p := range problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "- and %d more\n", len(problems)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parse returns the input as a tree of JSON values, numbers as json.Number.
// What the model wrote that is not JSON arrives as a JSON string of it.
func parse(input json.RawMessage) (tree any, problem string) {
	if len(input) > InputBound {
		return nil, fmt.Sprintf("it has %d bytes, at most %d are taken; split the work into several calls", len(input), InputBound)
	}
	if len(bytes.TrimSpace(input)) == 0 {
		return map[string]any{}, ""
	}
	tree, err := parseJSON(input)
	if err != nil {
		return nil, "it is not valid JSON: " + syntaxError(string(input), err)
	}
	raw, isString := tree.(string)
	if !isString {
		if tree == nil {
			tree = map[string]any{}
		}
		return tree, ""
	}
	if strings.TrimSpace(raw) == "" {
		return map[string]any{}, ""
	}
	if tree, err = parseJSON([]byte(raw)); err != nil {
		return nil, "it is not valid JSON: " + syntaxError(raw, err)
	}
	return tree, ""
}

func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &json.SyntaxError{Offset: d.InputOffset()}
	}
	return v, nil
}

// syntaxError says what is wrong with raw and where.
func syntaxError(raw string, err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Sprintf("it ends in the middle, after %s", quoteEnd(raw))
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err.Error()
	}
	at := int(min(max(syntax.Offset, 0), int64(len(raw))))
	what := syntax.Error()
	if what == "" {
		what = "something follows the end of the object"
	}
	return fmt.Sprintf("%s at byte %d, after %s", what, at, quoteEnd(raw[:at]))
}

// quoteEnd quotes the last few characters of s.
func quoteEnd(s string) string {
	const n = 40
	if len(s) > n {
		s = strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return strconv.Quote(s)
}

// checker checks a tree of JSON values against a schema of the kind that
// schemaOf makes, and collects what is wrong.
type checker struct{ problems []string }

func (c *checker) wrong(field, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if field != "" {
		msg = strconv.Quote(field) + ": " + msg
	}
	c.problems = append(c.problems, msg)
}

// check returns v with its numbers normalised and without optional nulls.
func (c *checker) check(s *jsonschema.Schema, field string, v any) any {
	if len(s.AnyOf) > 0 {
		return c.either(s, field, v)
	}
	switch s.Type {
	case "object":
		return c.object(s, field, v)
	case "array":
		return c.array(s, field, v)
	case "string":
		c.text(s, field, v)
	case "integer":
		return c.integer(s, field, v)
	case "boolean":
		if _, ok := v.(bool); !ok {
			c.wrong(field, "got %s, want %s", shown(v), expected(s))
		}
	}
	return v
}

// either checks a value that may be of several types, against the schema of its own.
func (c *checker) either(s *jsonschema.Schema, field string, v any) any {
	kind := ""
	switch v.(type) {
	case string:
		kind = "string"
	case map[string]any:
		kind = "object"
	}
	for _, one := range s.AnyOf {
		if one.Type == kind {
			return c.check(one, field, v)
		}
	}
	c.wrong(field, "got %s, want %s", shown(v), expected(s))
	return v
}

func (c *checker) object(s *jsonschema.Schema, field string, v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		c.wrong(field, "got %s, want an object with %s", shown(v), fields(s))
		return v
	}
	out := make(map[string]any, len(m))
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		path := join(field, p.Key)
		value, given := m[p.Key]
		required := slices.Contains(s.Required, p.Key)
		switch {
		case given && (value != nil || required):
			out[p.Key] = c.check(p.Value, path, value)
		case required:
			c.wrong(path, "missing; want %s", expected(p.Value))
		}
	}
	var unknown []string
	for k := range m {
		if _, known := s.Properties.Get(k); !known {
			unknown = append(unknown, k)
		}
	}
	slices.Sort(unknown)
	for _, k := range unknown {
		c.wrong(join(field, clip.Short(k, 60)), "unknown field; %s", fieldHint(s, k))
	}
	return out
}

func (c *checker) array(s *jsonschema.Schema, field string, v any) any {
	list, ok := v.([]any)
	if !ok {
		c.wrong(field, "got %s, want %s", shown(v), expected(s))
		return v
	}
	if s.MinItems != nil && uint64(len(list)) < *s.MinItems || s.MaxItems != nil && uint64(len(list)) > *s.MaxItems {
		c.wrong(field, "got %d items, want %s", len(list), expected(s))
		return v
	}
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = c.check(s.Items, fmt.Sprintf("%s[%d]", field, i), item)
	}
	return out
}

func (c *checker) text(s *jsonschema.Schema, field string, v any) {
	t, ok := v.(string)
	switch {
	case !ok:
		c.wrong(field, "got %s, want %s", shown(v), expected(s))
	case s.MinLength != nil && uint64(len(t)) < *s.MinLength:
		c.wrong(field, "it is empty, want %s", expected(s))
	case s.MaxLength != nil && uint64(len(t)) > *s.MaxLength:
		c.wrong(field, "it has %d bytes, want %s", len(t), expected(s))
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, any(t)):
		c.wrong(field, "got %s, want %s", shown(v), expected(s))
	}
}

func (c *checker) integer(s *jsonschema.Schema, field string, v any) any {
	n, ok := toInteger(v)
	if !ok {
		c.wrong(field, "got %s, want %s", shown(v), expected(s))
		return v
	}
	low, lowErr := s.Minimum.Int64()
	high, highErr := s.Maximum.Int64()
	if lowErr == nil && n < low || highErr == nil && n > high {
		c.wrong(field, "got %d, want %s", n, expected(s))
	}
	return n
}

// toInteger accepts 120 and 120.0: some models write all numbers as floats.
func toInteger(v any) (int64, bool) {
	num, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := num.Int64(); err == nil {
		return n, true
	}
	f, err := num.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// expected says in words what a schema takes.
func expected(s *jsonschema.Schema) string {
	if len(s.AnyOf) > 0 {
		words := make([]string, len(s.AnyOf))
		for i, one := range s.AnyOf {
			words[i] = expected(one)
		}
		return strings.Join(words, ", or ")
	}
	switch s.Type {
	case "string":
		if len(s.Enum) > 0 {
			words := make([]string, len(s.Enum))
			for i, e := range s.Enum {
				words[i] = strconv.Quote(fmt.Sprint(e))
			}
			return "one of " + strings.Join(words, ", ")
		}
		if s.MaxLength != nil {
			return fmt.Sprintf("a string of at most %d bytes%s", *s.MaxLength, notEmpty(s))
		}
		return "a string" + notEmpty(s)
	case "integer":
		if s.Minimum != "" && s.Maximum != "" {
			return fmt.Sprintf("an integer from %s to %s", s.Minimum, s.Maximum)
		}
		if s.Minimum != "" {
			return fmt.Sprintf("an integer of at least %s", s.Minimum)
		}
		return "an integer"
	case "boolean":
		return "true or false"
	case "array":
		return listOf(s)
	default:
		return "an object with " + fields(s)
	}
}

func notEmpty(s *jsonschema.Schema) string {
	if s.MinLength != nil && *s.MinLength > 0 {
		return ", not empty"
	}
	return ""
}

func listOf(s *jsonschema.Schema) string {
	of := " of " + expected(s.Items)
	if s.Items.Type == "string" && len(s.Items.Enum) == 0 {
		of = " of strings"
	}
	switch {
	case s.MinItems != nil && s.MaxItems != nil:
		return fmt.Sprintf("a list of %d to %d items,%s each", *s.MinItems, *s.MaxItems, strings.TrimPrefix(of, " of"))
	case s.MaxItems != nil:
		return fmt.Sprintf("a list of at most %d items,%s each", *s.MaxItems, strings.TrimPrefix(of, " of"))
	}
	return "a list" + of
}

// fields lists the fields of an object, the required ones marked.
func fields(s *jsonschema.Schema) string {
	var names []string
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		name := p.Key
		if slices.Contains(s.Required, name) {
			name += " (required)"
		}
		names = append(names, name)
	}
	return "the fields " + strings.Join(names, ", ")
}

// fieldHint names the field that was probably meant, or all there are.
func fieldHint(s *jsonschema.Schema, wrong string) string {
	var names []string
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		names = append(names, p.Key)
	}
	if like := closest(wrong, names, 1); len(like) > 0 {
		return "did you mean " + strconv.Quote(like[0]) + "?"
	}
	return "there are " + fields(s)
}

// shown describes a value in few words.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + clip.Short(v.String(), 40)
	case string:
		return "the string " + strconv.Quote(clip.Short(v, 60))
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d fields", len(v))
	}
	return fmt.Sprintf("%T", v)
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}
