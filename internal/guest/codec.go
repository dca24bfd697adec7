package guest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// maxElements is how many fields the answer to a call may have, the elements
// of its lists among them. An element of two bytes is one of a hundred in
// memory: the bound of the bytes alone would let a guest have a gigabyte of it.
const maxElements = 200_000

// codec is that of protobuf, for answers that are not trusted.
type codec struct{}

// Name names the codec, as Connect's own.
func (codec) Name() string { return "proto" }

// Marshal encodes a message.
func (codec) Marshal(m any) ([]byte, error) {
	pm, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", m)
	}
	return proto.Marshal(pm)
}

// Unmarshal decodes a message of few enough fields.
func (codec) Unmarshal(b []byte, m any) error {
	pm, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	n := 0
	for rest := b; len(rest) > 0; n++ {
		_, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if n == maxElements {
			return fmt.Errorf("the message has more than %d fields", maxElements)
		}
		rest = rest[size:]
	}
	return proto.Unmarshal(b, pm)
}
