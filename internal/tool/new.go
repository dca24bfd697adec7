package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"
)

// InputBound is how many bytes of JSON the input of one call may have.
const InputBound = 2 << 20

// New returns a tool whose input is an In: a struct of strings, integers,
// booleans, and lists of strings or such structs, or of a type that is either
// ([Proof]). The schema is made from its
// tags: json (with omitempty, the field is optional), jsonschema (bounds) and
// jsonschema_description. The same In gives the same bytes. An input that does
// not fit the schema never reaches run: the model is told what is wrong with it.
//
// New panics if no schema can be made of In, which a test of the caller sees.
func New[In any](name, prompt string, run func(ctx context.Context, env *Env, in In) (Result, error)) Tool {
	schema := schemaOf[In]()
	raw, err := json.Marshal(schema)
	if err != nil {
		panic("tool " + name + ": " + err.Error())
	}
	return Tool{
		Name:        name,
		Description: strings.TrimSpace(prompt),
		Schema:      raw,
		Run: func(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
			in, problems := decode[In](schema, input)
			if len(problems) > 0 {
				return ErrorResult(inputMessage(name, problems)), nil
			}
			return run(ctx, env, in)
		},
	}
}

// schemaOf returns the schema of In in the part of JSON Schema that all
// providers of models accept: one tree, no references.
func schemaOf[In any]() *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true}
	var in In
	s := r.Reflect(in)
	s.Version = ""
	if s.Type != "object" || s.Properties == nil {
		panic(fmt.Sprintf("tool: the input %T is not a struct with fields", in))
	}
	return s
}

// readOnly marks a tool that never changes the workspace.
func readOnly(t Tool) Tool {
	t.ReadOnly = true
	return t
}

// yields marks a tool that comes back on ErrYield.
func yields(t Tool) Tool {
	t.Yields = true
	return t
}
