package tool

import (
	"encoding/json"
	"strings"

	"github.com/invopop/jsonschema"
)

// plainProof is Proof without its own way into and out of JSON.
type plainProof Proof

// UnmarshalJSON takes a command as a string, a page as an object.
func (p *Proof) UnmarshalJSON(b []byte) error {
	*p = Proof{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &p.Command)
	}
	return json.Unmarshal(b, (*plainProof)(p))
}

// MarshalJSON is the reverse of UnmarshalJSON.
func (p Proof) MarshalJSON() ([]byte, error) {
	if p.Page == "" {
		return json.Marshal(p.Command)
	}
	return json.Marshal(plainProof(p))
}

// JSONSchema says that a proof is a string or an object.
func (Proof) JSONSchema() *jsonschema.Schema {
	const maxCommand = 4096
	one, most := uint64(1), uint64(maxCommand)
	page := schemaOf[plainProof]()
	page.Description = "A page that is opened in the machine's browser."
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", MinLength: &one, MaxLength: &most, Description: "A Bash command."}, page,
	}}
}

// nothing reports whether a command proves nothing.
func nothing(command string) bool {
	trimmed := strings.TrimSpace(command)
	return trimmed == "" || trimmed == "true" || trimmed == ":" || strings.HasPrefix(trimmed, "#")
}
