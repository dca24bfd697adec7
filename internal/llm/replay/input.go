package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// param is one parameter of a call: its name and its value as JSON.
type param struct {
	name  string
	value json.RawMessage
}

// jsonString returns s as JSON, with < > & as they are.
func jsonString(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string can't fail
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// object returns the JSON object that has the parameters in order.
func object(params []param) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonString(p.name))
		b.WriteByte(':')
		b.Write(p.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// errNotObject says that an input can't be written as parameters.
var errNotObject = errors.New("not an object of parameters")

// params takes an input apart. It fails if putting the parameters together
// again would not give the same bytes.
func params(input json.RawMessage) ([]param, error) {
	d := json.NewDecoder(bytes.NewReader(input))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	var list []param
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, errNotObject
		}
		seen[name] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if bytes.ContainsAny(v, "\r\n") {
			return nil, errNotObject
		}
		list = append(list, param{name, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotObject
	}
	if !bytes.Equal(object(list), input) {
		return nil, errNotObject
	}
	return list, nil
}

// rawInput returns what a model's input of this text is in a block: the text
// itself if it is JSON, and a JSON string of it if not.
func rawInput(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return jsonString(text)
}

// inline reports whether s can be written as the rest of a line.
func inline(s string) bool {
	return !strings.ContainsAny(s, "\r\n") && strings.TrimSpace(s) == s && !strings.HasPrefix(s, "<<")
}

// plainName reports whether a parameter's name needs no quotes.
func plainName(s string) bool {
	if s == "" {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// word reports whether s is made of letters, digits and "_".
func word(s string) bool { return plainName(s) && !strings.ContainsAny(s, ".-") }

// blockTag reports whether s can end a block.
func blockTag(s string) bool { return plainName(s) && s[0] != '-' }
