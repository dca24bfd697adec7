package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// decodeStrict decodes one JSON value into v. Unlike encoding/json alone it
// refuses names that v does not have, in exactly their case, names that are
// given twice, null, and text that is not UTF-8; and its errors name the field.
func decodeStrict(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return glovebox.Invalid("body", "send a JSON object", "the body is empty")
	}
	if !utf8.Valid(body) {
		return glovebox.Invalid("body", "send the JSON as UTF-8", "the body is not valid UTF-8")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return syntaxError(body, err)
	}
	if i := loneSurrogate(body); i >= 0 {
		return glovebox.Invalid("body", "write the character itself, or both halves of its pair", `%s at byte %d is half a character`, body[i:i+6], i)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := checkValue(d, "", reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return glovebox.Invalid("body", "see /openapi.json", "%v", err)
	}
	return nil
}

// loneSurrogate returns where in JSON an escape stands for one half of a
// surrogate pair alone, which encoding/json replaces without a word, or -1.
func loneSurrogate(body []byte) int {
	for i := 0; i < len(body)-1; i++ {
		if body[i] != '\\' {
			continue
		}
		r := escaped(body[i:])
		switch {
		case r < 0: // another escape, of two bytes
			i++
		case !utf16.IsSurrogate(r):
			i += 5
		case utf16.DecodeRune(r, escaped(body[i+6:])) == utf8.RuneError:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// escaped returns the number in the \u escape that b begins with, or -1.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func syntaxError(body []byte, err error) error {
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := body[:min(max(se.Offset-1, 0), int64(len(body)))]
		line := bytes.Count(before, []byte("\n")) + 1
		col := len(before) - bytes.LastIndexByte(before, '\n')
		return glovebox.Invalid("body", "send one JSON object; text may also be sent as text/plain", "not JSON at line %d, column %d: %v", line, col, err)
	}
	return glovebox.Invalid("body", "send one JSON object", "not JSON: %v", err)
}

// checkValue walks the next value of d, which is for something of type t.
func checkValue(d *json.Decoder, path string, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tok, err := d.Token()
	if err != nil {
		return glovebox.Invalid("body", "send one JSON object", "not JSON: %v", err)
	}
	field := path
	if field == "" {
		field = "body"
	}
	switch tok {
	case json.Delim('{'):
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return wrongType(field, t, "an object")
		}
		return checkObject(d, path, t)
	case json.Delim('['):
		if t.Kind() != reflect.Slice {
			return wrongType(field, t, "a list")
		}
		for i := 0; d.More(); i++ {
			if err := checkValue(d, fmt.Sprintf("%s[%d]", path, i), t.Elem()); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	}
	return checkScalar(field, tok, t)
}

func checkScalar(field string, tok json.Token, t reflect.Type) error {
	switch v := tok.(type) {
	case nil:
		return wrongType(field, t, "null")
	case string:
		if t.Kind() != reflect.String {
			return wrongType(field, t, "text").WithValue(v)
		}
	case bool:
		if t.Kind() != reflect.Bool {
			return wrongType(field, t, "true or false").WithValue(v)
		}
	case json.Number:
		if t.Kind() != reflect.Int64 {
			return wrongType(field, t, "a number").WithValue(v)
		}
		if _, err := v.Int64(); err != nil {
			return wrongType(field, t, "not one").WithValue(v)
		}
	}
	return nil
}

func checkObject(d *json.Decoder, path string, t reflect.Type) error {
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		name := tok.(string)
		field := clip(name, 60)
		if name == "" {
			field = `""`
		}
		if path != "" {
			field = path + "." + field
		}
		if seen[name] {
			return glovebox.Invalid(field, "give it once", "the field is given twice")
		}
		seen[name] = true
		var elem reflect.Type
		if t.Kind() == reflect.Map {
			elem = t.Elem()
		} else if elem = fieldType(t, name); elem == nil {
			return glovebox.Invalid(field, "the fields are: "+strings.Join(fieldNames(t), ", "), "unknown field %q", clip(name, 60)).WithValue(name)
		}
		if err := checkValue(d, field, elem); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func wrongType(field string, t reflect.Type, got string) *glovebox.Error {
	want := map[reflect.Kind]string{
		reflect.String: "text in quotes", reflect.Int64: "a whole number", reflect.Bool: "true or false",
		reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
	}[t.Kind()]
	return glovebox.Invalid(field, "give "+want+", or leave it out", "it is %s, and should be %s", got, want)
}

func fieldType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		if n, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); n == name && n != "-" {
			return t.Field(i).Type
		}
	}
	return nil
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if n, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); n != "" && n != "-" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
