// Package wire is what the guest daemon and its client say to each other
// beneath the calls: the yamux session over the one byte stream, the line with
// which every stream of it begins, and the frames of streams that carry more
// than bare bytes.
//
// Either end may be hostile to the other. Nothing here allocates by a length
// that a peer merely claims beyond the bounds named in this package, and no
// number of frames makes the reading end keep more than its windows.
package wire

import (
	"bufio"
	"fmt"
	"strings"
)

// MaxHeader is the most bytes that the first line of a stream may have, its
// newline included.
const MaxHeader = 128

// The kinds of stream. A host opens all but Egress, which the guest opens.
const (
	KindCall       = "call"       // HTTP/1.1 with Connect calls, one after another
	KindRun        = "run"        // frames: RunRequest; output, ProcessState
	KindOutput     = "output"     // frames: OutputRequest; output until the process ends
	KindTerminal   = "terminal"   // bare bytes; argument: the process
	KindPort       = "port"       // bare bytes after one frame; argument: the port
	KindService    = "service"    // bare bytes after one frame; argument: the service
	KindEgress     = "egress"     // bare bytes
	KindGet        = "get"        // frames: GetRequest; GetReply, data
	KindPut        = "put"        // frames: PutRequest, data; end
	KindWatch      = "watch"      // frames: WatchRequest; WatchBatch, ...
	KindExport     = "export"     // frames: ExportRoot, ExportRequest, ...; listings and files
	KindImport     = "import"     // frames: ImportRequest, data; end
	KindCheckpoint = "checkpoint" // frames: CheckpointRequest; CheckpointReply, data
	KindRestore    = "restore"    // frames: RestoreRequest, packs; end
	KindExecute    = "execute"    // frames: ExecuteRequest, data; end; CellEvents, each with its data
)

// Header is the first line of a stream: "glovebox/1 KIND" or "glovebox/1 KIND ARG".
type Header struct {
	Kind string // 1 to 16 of [a-z]
	Arg  string // at most 64 of [0-9A-Za-z_-]; may be empty
}

const headerPrefix = "glovebox/1 "

// Append appends the line to b.
func (h Header) Append(b []byte) []byte {
	b = append(b, headerPrefix...)
	b = append(b, h.Kind...)
	if h.Arg != "" {
		b = append(append(b, ' '), h.Arg...)
	}
	return append(b, '\n')
}

// ParseHeader parses a line without its newline.
func ParseHeader(line string) (Header, error) {
	rest, ok := strings.CutPrefix(line, headerPrefix)
	if !ok || len(line) >= MaxHeader {
		return Header{}, fmt.Errorf("stream header %.40q does not begin with %q or is too long", line, headerPrefix)
	}
	kind, arg, hasArg := strings.Cut(rest, " ")
	if kind == "" || len(kind) > 16 || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") != "" {
		return Header{}, fmt.Errorf("stream header has the kind %.40q", kind)
	}
	if hasArg && (arg == "" || !ValidID(arg)) {
		return Header{}, fmt.Errorf("stream header has the argument %.40q", arg)
	}
	return Header{Kind: kind, Arg: arg}, nil
}

// ReadHeader reads the first line of a stream.
func ReadHeader(r *bufio.Reader) (Header, error) {
	var line [MaxHeader]byte
	for n := range line {
		b, err := r.ReadByte()
		if err != nil {
			return Header{}, fmt.Errorf("read stream header: %w", err)
		}
		if b == '\n' {
			return ParseHeader(string(line[:n]))
		}
		line[n] = b
	}
	return Header{}, fmt.Errorf("stream header is longer than %d bytes", MaxHeader)
}

// ValidID reports whether s can name a process: 1 to 64 of [0-9A-Za-z_-].
func ValidID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Version is that of the protocol. Both ends come from one binary, so another
// one means that a sandbox outlived an update.
const Version = 2
