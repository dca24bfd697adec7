package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v4"

	"github.com/glovebox-dev/glovebox"
)

// Source is where a configuration comes from.
type Source struct {
	File  string                   // must be there; empty for config.yaml in the data directory, which need not
	Env   func(name string) string // as os.Getenv
	Flags map[string]any           // by setting, such as "log.format"; only what was given
}

// maxFile bounds the file.
const maxFile = 1 << 20

// Load returns the configuration, not yet validated: [Config.Validate] needs
// to know what there is to choose from.
func Load(s Source) (Config, error) {
	c := Default()
	if s.Env == nil {
		s.Env = os.Getenv
	}
	env, err := fromEnv(s.Env)
	if err != nil {
		return c, err
	}
	file, must := s.File, true
	if file == "" {
		file = s.Env("GLOVEBOX_CONFIG")
	}
	if file == "" {
		data := c.Data
		for _, m := range []map[string]any{env, s.Flags} {
			if d, ok := m["data"].(string); ok {
				data = d
			}
		}
		file, must = filepath.Join(data, "config.yaml"), false
	}
	settings, err := readFile(file, must)
	if err != nil {
		return c, err
	}
	k := koanf.New(".")
	for _, m := range []map[string]any{settings, nested(env), nested(s.Flags)} {
		if err := k.Load(values(m), nil); err != nil {
			return c, fmt.Errorf("merge the configuration: %w", err)
		}
	}
	err = k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{Tag: "json", DecoderConfig: &mapstructure.DecoderConfig{
		Result: &c, TagName: "json", ErrorUnused: true, ZeroFields: true,
	}})
	if err != nil {
		return c, &glovebox.Error{Code: glovebox.CodeInvalid, Op: "read the configuration", Msg: explain(err), Hint: "the settings are listed by: glovebox config"}
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return c, fmt.Errorf("find the data directory: %w", err)
	}
	return c, nil
}

// values is a koanf.Provider of what is already there.
type values map[string]any

// ReadBytes is not supported: there is nothing to parse.
func (values) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// Read returns the values.
func (v values) Read() (map[string]any, error) { return v, nil }

func readFile(path string, must bool) (map[string]any, error) {
	fail := func(msg string, err error) error {
		return &glovebox.Error{Code: glovebox.CodeInvalid, Op: "read the configuration", Field: path, Msg: msg, Err: err}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && !must:
		return nil, nil
	case err != nil:
		return nil, fail("can't be read", err)
	case info.Size() > maxFile:
		return nil, fail(fmt.Sprintf("it has %d bytes; at most %d are read", info.Size(), maxFile), nil)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fail("can't be read", err)
	}
	var m map[string]any
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, fail("it is not YAML", err)
	}
	return m, nil
}

// Field is one setting.
type Field struct {
	Name  string // as in the file, such as "log.format"
	Env   string // the variable
	Doc   string
	Value any
	kind  reflect.Type
}

// Fields returns all settings with their values in c, in order.
func (c Config) Fields() []Field { return fields("", reflect.ValueOf(c)) }

func fields(prefix string, v reflect.Value) []Field {
	var out []Field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = prefix + name
		if f.Type.Kind() == reflect.Struct {
			out = append(out, fields(name+".", v.Field(i))...)
			continue
		}
		env := "GLOVEBOX_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
		out = append(out, Field{Name: name, Env: env, Doc: f.Tag.Get("doc"), Value: v.Field(i).Interface(), kind: f.Type})
	}
	return out
}

// fromEnv reads the variables that are set, as values of their fields' types.
func fromEnv(env func(string) string) (map[string]any, error) {
	out := map[string]any{}
	var errs []error
	for _, f := range Default().Fields() {
		s := env(f.Env)
		if s == "" {
			continue
		}
		v, err := f.Parse(s)
		if err != nil {
			errs = append(errs, glovebox.Invalid(f.Env, "correct the variable or unset it", "%s", err))
			continue
		}
		out[f.Name] = v
	}
	return out, errors.Join(errs...)
}

// String returns the value as people write it: lists of more than words as
// JSON, which is YAML too.
func (f Field) String() string {
	if f.kind.Kind() == reflect.Slice && f.kind.Elem().Kind() == reflect.Struct {
		return compactJSON(reflect.ValueOf(f.Value))
	}
	return fmt.Sprint(f.Value)
}

// compactJSON writes a list of structs without the fields that are nil.
func compactJSON(list reflect.Value) string {
	out := make([]map[string]any, list.Len())
	for i := range out {
		out[i] = map[string]any{}
		for _, f := range fields("", list.Index(i)) {
			if v := reflect.ValueOf(f.Value); v.Kind() != reflect.Pointer || !v.IsNil() {
				out[i][f.Name] = f.Value
			}
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Parse reads the value of a field from a string, as in the environment.
func (f Field) Parse(s string) (any, error) {
	switch f.kind.Kind() {
	case reflect.Bool:
		if b, err := strconv.ParseBool(s); err == nil {
			return b, nil
		}
		return nil, fmt.Errorf("%q is not true or false", s)
	case reflect.Int, reflect.Int64:
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("%q is not a whole number", s)
	case reflect.Slice:
		if f.kind.Elem().Kind() == reflect.Struct {
			var list []any
			if yaml.Unmarshal([]byte(s), &list) != nil {
				return nil, fmt.Errorf("the value is not a list in YAML")
			}
			return list, nil
		}
		list := strings.Split(s, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return slices.DeleteFunc(list, func(s string) bool { return s == "" }), nil
	}
	return s, nil
}

// nested makes {"a": {"b": v}} of {"a.b": v}.
func nested(flat map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range flat {
		m := out
		parts := strings.Split(k, ".")
		for _, p := range parts[:len(parts)-1] {
			next, ok := m[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[p] = next
			}
			m = next
		}
		m[parts[len(parts)-1]] = v
	}
	return out
}

// explain makes one line of what mapstructure says over several.
func explain(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "'' ", "")), " ")
}
