// Package rfb stands between a person's browser and the display of a sandbox,
// both of which speak RFB 3.8 (VNC).
//
// It is neither a client nor a server of pictures: it shakes hands on both
// sides and then reads every message of both directions, passing on what it
// can vouch for. Two things come of it:
//
//   - Viewing is enforced here, not in the page. Input (keys, pointer,
//     clipboard, sizes) passes only while the relay has control; when control
//     ends, the keys and buttons that are down are released.
//   - The display, which is in a sandbox and so not trusted, can't send a
//     browser what it must not get: every length is checked against a bound,
//     every rectangle against the screen, every picture against its rectangle.
//
// # What a slow reader costs
//
// Two buffers of [bufferSize] bytes, however slow it is. While it takes
// nothing, nothing is read from the display, whose own connection fills up, and
// requests for updates are held back and merged into one. A display encodes
// what is on the screen when it is asked, so the frames in between are dropped,
// not queued.
package rfb

import "fmt"

// Bounds of what passes.
const (
	bufferSize   = 64 << 10 // bytes of each of the two buffers
	maxSide      = 8192     // pixels of the screen's width or height
	maxPixels    = 16 << 20 // pixels of the screen
	maxCursor    = 512      // pixels of the pointer's width or height
	maxName      = 200      // bytes of the desktop's name, as passed on
	maxReadName  = 64 << 10 // bytes of the desktop's name, as read
	maxCutText   = 256 << 10
	maxEncodings = 256 // that a viewer may list
	maxScreens   = 16
	maxFence     = 64      // bytes of a fence
	maxPicture   = 4 << 20 // bytes of one compressed rectangle of Tight; what its 22 bits can say
	maxZRLE      = 4*maxPixels + maxPixels/4
	maxReason    = 1 << 10 // bytes of why a display refuses
	maxDown      = 64      // keys that can be down at once
)

// Peer is one of the two sides.
type Peer string

// The peers.
const (
	Viewer Peer = "viewer"
	Screen Peer = "display"
)

// PeerError says that a peer broke the protocol or a bound.
type PeerError struct {
	Peer Peer
	Msg  string
}

// Error returns who did what.
func (e *PeerError) Error() string { return "the " + string(e.Peer) + " " + e.Msg }

func fault(p Peer, format string, args ...any) error {
	return &PeerError{Peer: p, Msg: fmt.Sprintf(format, args...)}
}

// Types of messages from the viewer.
const (
	msgSetPixelFormat    = 0
	msgSetEncodings      = 2
	msgUpdateRequest     = 3
	msgKey               = 4
	msgPointer           = 5
	msgClientCutText     = 6
	msgContinuousUpdates = 150
	msgFence             = 248 // of both sides
	msgXVP               = 250 // of both sides
	msgSetDesktopSize    = 251
	msgQEMU              = 255
)

// Types of messages from the display.
const (
	msgUpdate            = 0
	msgColourMap         = 1
	msgBell              = 2
	msgServerCutText     = 3
	msgEndOfContinuous   = 150
	securityNone         = 1
	securityVNC          = 2
	version              = "RFB 003.008\n"
	pixelBytes           = 4 // of a pixel in the one format that is passed
	tightPixelBytes      = 3 // of a pixel of Tight in that format
	tightUncompressedMax = 12
)

// Encodings that are passed, and what they are.
const (
	encRaw              = 0
	encCopyRect         = 1
	encTight            = 7
	encZRLE             = 16
	encDesktopSize      = -223
	encLastRect         = -224
	encCursor           = -239
	encQEMUKey          = -258
	encQEMULED          = -261
	encDesktopName      = -307
	encExtDesktopSize   = -308
	encFence            = -312
	encContinuous       = -313
	encVMwareCursor     = 0x574d5664
	encVMwareLED        = 0x574d5668
	encExtClipboard     = -0x3f5e1a32 // 0xc0a1e5ce
	encQualityFirst     = -32
	encQualityLast      = -23
	encCompressionFirst = -256
	encCompressionLast  = -247
)

// vouched reports whether the relay knows how the display answers to an
// encoding. JPEG without a length, H.264, TightPNG, Hextile, RRE and Zlib are
// left out: Tight and ZRLE do what they do.
func vouched(enc int32) bool {
	switch enc {
	case encRaw, encCopyRect, encTight, encZRLE, encDesktopSize, encLastRect, encCursor, encQEMUKey, encQEMULED,
		encDesktopName, encExtDesktopSize, encFence, encContinuous, encVMwareCursor, encVMwareLED, encExtClipboard:
		return true
	}
	return enc >= encQualityFirst && enc <= encQualityLast || enc >= encCompressionFirst && enc <= encCompressionLast
}
