//go:build linux

package display

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// keysym is X's number for what a key means.
type keysym uint32

// Keysyms of control characters in text.
const (
	symBackspace keysym = 0xff08
	symTab       keysym = 0xff09
	symReturn    keysym = 0xff0d
	symEscape    keysym = 0xff1b
	symShift     keysym = 0xffe1
)

// keyNames are X's names of keys, in lower case, and the ones by which people
// and models call them. Names of one character need no entry.
var keyNames = map[string]keysym{
	"backspace": symBackspace, "tab": symTab, "linefeed": 0xff0a, "clear": 0xff0b, "return": symReturn, "enter": symReturn,
	"pause": 0xff13, "scroll_lock": 0xff14, "scrolllock": 0xff14, "sys_req": 0xff15, "escape": symEscape, "esc": symEscape,
	"delete": 0xffff, "del": 0xffff, "multi_key": 0xff20, "compose": 0xff20,
	"home": 0xff50, "left": 0xff51, "up": 0xff52, "right": 0xff53, "down": 0xff54,
	"arrowleft": 0xff51, "arrowup": 0xff52, "arrowright": 0xff53, "arrowdown": 0xff54,
	"left_arrow": 0xff51, "up_arrow": 0xff52, "right_arrow": 0xff53, "down_arrow": 0xff54,
	"page_up": 0xff55, "pageup": 0xff55, "prior": 0xff55, "pgup": 0xff55, "page_down": 0xff56, "pagedown": 0xff56, "next": 0xff56, "pgdn": 0xff56,
	"end": 0xff57, "begin": 0xff58, "select": 0xff60, "print": 0xff61, "printscreen": 0xff61, "print_screen": 0xff61, "prtsc": 0xff61,
	"execute": 0xff62, "insert": 0xff63, "ins": 0xff63, "undo": 0xff65, "redo": 0xff66, "menu": 0xff67, "find": 0xff68, "cancel": 0xff69,
	"help": 0xff6a, "break": 0xff6b, "num_lock": 0xff7f, "numlock": 0xff7f, "contextmenu": 0xff67,

	"kp_space": 0xff80, "kp_tab": 0xff89, "kp_enter": 0xff8d, "kp_home": 0xff95, "kp_left": 0xff96, "kp_up": 0xff97, "kp_right": 0xff98,
	"kp_down": 0xff99, "kp_prior": 0xff9a, "kp_page_up": 0xff9a, "kp_next": 0xff9b, "kp_page_down": 0xff9b, "kp_end": 0xff9c, "kp_begin": 0xff9d,
	"kp_insert": 0xff9e, "kp_delete": 0xff9f, "kp_equal": 0xffbd, "kp_multiply": 0xffaa, "kp_add": 0xffab, "kp_separator": 0xffac,
	"kp_subtract": 0xffad, "kp_decimal": 0xffae, "kp_divide": 0xffaf,

	"shift": symShift, "shift_l": symShift, "shift_r": 0xffe2, "ctrl": 0xffe3, "control": 0xffe3, "control_l": 0xffe3, "ctrl_l": 0xffe3,
	"control_r": 0xffe4, "ctrl_r": 0xffe4, "caps_lock": 0xffe5, "capslock": 0xffe5, "shift_lock": 0xffe6, "meta_l": 0xffe7, "meta_r": 0xffe8,
	"alt": 0xffe9, "alt_l": 0xffe9, "option": 0xffe9, "alt_r": 0xffea, "altgr": 0xfe03, "iso_level3_shift": 0xfe03, "iso_left_tab": 0xfe20,
	"super": 0xffeb, "super_l": 0xffeb, "meta": 0xffeb, "cmd": 0xffeb, "command": 0xffeb, "win": 0xffeb, "windows": 0xffeb, "super_r": 0xffec,
	"hyper_l": 0xffed, "hyper_r": 0xffee,

	"space": ' ', "exclam": '!', "quotedbl": '"', "numbersign": '#', "dollar": '$', "percent": '%', "ampersand": '&', "apostrophe": '\'',
	"quoteright": '\'', "parenleft": '(', "parenright": ')', "asterisk": '*', "plus": '+', "comma": ',', "minus": '-', "period": '.', "dot": '.',
	"slash": '/', "colon": ':', "semicolon": ';', "less": '<', "equal": '=', "greater": '>', "question": '?', "at": '@', "bracketleft": '[',
	"backslash": '\\', "bracketright": ']', "asciicircum": '^', "underscore": '_', "grave": '`', "quoteleft": '`', "braceleft": '{', "bar": '|',
	"braceright": '}', "asciitilde": '~', "nobreakspace": 0xa0, "degree": 0xb0, "section": 0xa7, "sterling": 0xa3, "eurosign": 0x10020ac,

	"xf86audiolowervolume": 0x1008ff11, "xf86audiomute": 0x1008ff12, "xf86audioraisevolume": 0x1008ff13, "xf86audioplay": 0x1008ff14,
	"xf86audiostop": 0x1008ff15, "xf86audioprev": 0x1008ff16, "xf86audionext": 0x1008ff17, "xf86back": 0x1008ff26, "xf86forward": 0x1008ff27,
	"xf86refresh": 0x1008ff29, "xf86search": 0x1008ff1b, "xf86homepage": 0x1008ff18, "xf86copy": 0x1008ff57, "xf86cut": 0x1008ff58,
	"xf86paste": 0x1008ff6d, "xf86close": 0x1008ff56, "xf86reload": 0x1008ff73,
}

func init() {
	for i := range keysym(35) {
		keyNames["f"+strconv.Itoa(int(i)+1)] = 0xffbe + i
	}
	for i := range keysym(10) {
		keyNames["kp_"+strconv.Itoa(int(i))] = 0xffb0 + i
	}
}

// isModifier reports whether a key does nothing by itself.
func (s keysym) isModifier() bool { return s >= 0xffe1 && s <= 0xffee || s == 0xfe03 }

// runeSym returns the keysym of a character: its number in Latin-1, else its
// number in Unicode above a million.
func runeSym(r rune) (keysym, bool) {
	switch {
	case r == '\n' || r == '\r':
		return symReturn, true
	case r == '\t':
		return symTab, true
	case r == '\b':
		return symBackspace, true
	case r == 0x1b:
		return symEscape, true
	case r >= ' ' && r < 0x7f, r >= 0xa0 && r <= 0xff:
		return keysym(r), true
	case r < 0xa0 || r > unicode.MaxRune || !utf8.ValidRune(r):
		return 0, false
	}
	return 0x1000000 + keysym(r), true
}

// parseChord reads a chord such as "ctrl+shift+t" or "Page_Down". A letter
// beside a modifier is meant as the key, whatever its case.
func parseChord(text string) ([]keysym, error) {
	var chord []keysym
	rest := strings.TrimSpace(text)
	names := strings.Split(rest, "+")
	if rest == "+" || strings.HasSuffix(rest, "++") { // the key is "+" itself
		names = append(names[:len(names)-2], "+")
	}
	modified := false
	for _, n := range names {
		s, ok := nameSym(strings.TrimSpace(n))
		if !ok {
			return nil, glovebox.Invalid("keys", `use X's names of keys joined by "+", such as ctrl+s, Return, Page_Down, F5`, "%.60q is no key", n)
		}
		modified = modified || s.isModifier()
		chord = append(chord, s)
	}
	if len(chord) > maxChord {
		return nil, glovebox.Invalid("keys", "press fewer at once", "%d keys are more than %d", len(chord), maxChord)
	}
	for i, s := range chord {
		if modified && s >= 'A' && s <= 'Z' {
			chord[i] = s - 'A' + 'a'
		}
	}
	return chord, nil
}

func nameSym(name string) (keysym, bool) {
	if r, n := utf8.DecodeRuneInString(name); n == len(name) && n > 0 && r != utf8.RuneError {
		return runeSym(r)
	}
	if s, ok := keyNames[strings.ToLower(name)]; ok {
		return s, true
	}
	if hex, ok := strings.CutPrefix(name, "U"); ok {
		if v, err := strconv.ParseUint(hex, 16, 32); err == nil && len(hex) >= 4 && v <= unicode.MaxRune {
			return runeSym(rune(v))
		}
	}
	return 0, false
}
