package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-dev/glovebox"
)

const specDescription = `A task goes in, an agent works on it in a sandbox, a finished project comes out.

Errors are problems (RFC 9457) that also name code, field, value and hint. On loopback no token is needed; elsewhere send "Authorization: Bearer TOKEN". A job of another tenant is a 404. Paths in answers are relative to the server.`

// buildSpec describes the routes in OpenAPI 3.1. It is a pure function of
// them, so that the committed document can be compared. Its version is that of
// the API, not of the build.
func buildSpec(routes []route) []byte {
	b, err := json.Marshal(describeAPI(routes))
	if err != nil {
		panic("api: openapi: " + err.Error()) // a fault of the table, found by every test
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		panic("api: openapi: " + err.Error())
	}
	return append(out.Bytes(), '\n')
}

func describeAPI(routes []route) *huma.OpenAPI {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Glovebox", Version: "1", Description: specDescription, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{
			Schemas:         reg,
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "Made with: glovebox token create"}},
		},
	}
	for _, rt := range routes {
		doc.AddOperation(rt.operation(reg))
	}
	return doc
}

func (rt route) operation(reg huma.Registry) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: strings.NewReplacer("{path...}", "{path}", "{$}", "").Replace(rt.path),
		OperationID: rt.id, Summary: rt.summary, Description: rt.doc, Responses: map[string]*huma.Response{},
	}
	for _, name := range []string{"id", "path", "handle", "port", "capability", "step", "project", "file"} {
		if strings.Contains(op.Path, "{"+name+"}") {
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	if rt.link != "" {
		op.Parameters = append(op.Parameters, param{name: "link", typ: "string", doc: "A link to the job, instead of a token: POST /jobs/{id}/links."}.param("query"))
	}
	for _, p := range rt.query {
		op.Parameters = append(op.Parameters, p.param("query"))
	}
	for _, p := range rt.header {
		op.Parameters = append(op.Parameters, p.param("header"))
	}
	if len(rt.body) > 0 {
		op.RequestBody = &huma.RequestBody{Required: true, Content: content(reg, rt.body)}
	}
	for _, an := range rt.answers {
		resp := &huma.Response{Description: an.doc}
		if len(an.media) > 0 {
			resp.Content = content(reg, an.media)
		}
		for name, text := range an.headers {
			if resp.Headers == nil {
				resp.Headers = map[string]*huma.Param{}
			}
			resp.Headers[name] = &huma.Param{Description: text, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		op.Responses[strconv.Itoa(an.status)] = resp
	}
	for _, status := range rt.failures() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: reg.Schema(reflect.TypeFor[glovebox.Problem](), true, "")}}}
	}
	if rt.scope != "" {
		op.Security = []map[string][]string{{}, {"token": {}}}
	}
	return op
}

// failures returns the statuses of the problems that rt may answer with.
func (rt route) failures() []int {
	out := slices.Clone(rt.fails)
	if !rt.anyHost {
		out = append(out, http.StatusForbidden)
	}
	if rt.scope != "" {
		out = append(out, http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	if len(rt.query) > 0 || len(rt.body) > 0 {
		out = append(out, http.StatusBadRequest)
	}
	out = append(out, http.StatusInternalServerError)
	slices.Sort(out)
	return slices.Compact(out)
}

func (p param) param(in string) *huma.Param {
	s := &huma.Schema{Type: p.typ}
	out := &huma.Param{Name: p.name, In: in, Description: p.doc, Schema: s}
	if p.list {
		explode := true
		out.Schema, out.Explode = &huma.Schema{Type: huma.TypeArray, Items: s}, &explode
	}
	return out
}

func content(reg huma.Registry, ms []media) map[string]*huma.MediaType {
	out := map[string]*huma.MediaType{}
	for _, m := range ms {
		switch {
		case m.form != nil:
			s := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
			for name, text := range m.form {
				s.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: text}
				if name == "archive" {
					s.Properties[name].Format = "binary"
				}
			}
			out[m.contentType] = &huma.MediaType{Schema: s}
		case m.typ != nil:
			out[m.contentType] = &huma.MediaType{Schema: reg.Schema(reflect.TypeOf(m.typ), true, "Message")}
		default:
			out[m.contentType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
	}
	return out
}
