//go:build linux

package display

import "encoding/binary"

// fit returns the size of a picture of w by h scaled down to fit a bound, 0
// being none; never up.
func fit(w, h, maxW, maxH int) (int, int) {
	num, den := 1, 1
	if maxW > 0 && w > maxW {
		num, den = maxW, w
	}
	if maxH > 0 && h > maxH && maxH*den < num*h {
		num, den = maxH, h
	}
	return max(1, (w*num+den/2)/den), max(1, (h*num+den/2)/den)
}

// span is the part of a line of pixels that one smaller pixel stands for: the
// first, and the weight of each, in 65536ths of the whole.
type span struct {
	first   int
	weights []uint32
}

// spans divides a line of n pixels into m equal parts.
func spans(n, m int) []span {
	list := make([]span, m)
	for i := range list {
		// In units of 1/m pixel the part is from i*n to (i+1)*n.
		from, to := i*n, (i+1)*n
		s := &list[i]
		s.first = from / m
		sum := uint32(0)
		for at := s.first; at*m < to; at++ {
			covered := min((at+1)*m, to) - max(at*m, from)
			w := uint32(covered * 65536 / n)
			s.weights = append(s.weights, w)
			sum += w
		}
		s.weights[len(s.weights)/2] += 65536 - sum // what rounding lost
	}
	return list
}

// shrink scales a picture down, each pixel being the mean of the area that it
// stands for: text stays legible, and it is one pass over each line.
func shrink(p pixels, w, h int, into []byte) pixels {
	if need := 4 * w * h; cap(into) < need {
		into = make([]byte, need)
	} else {
		into = into[:need]
	}
	out := pixels{b: into, w: w, h: h}
	across, down := spans(p.w, w), spans(p.h, h)
	line := make([]uint32, 3*w) // one line scaled across, 8 bits of fraction
	sum := make([]uint64, 3*w)
	for y, part := range down {
		clear(sum)
		for k, weight := range part.weights {
			if weight == 0 {
				continue
			}
			shrinkLine(line, p.row(part.first+k), across)
			for i, v := range line {
				sum[i] += uint64(v) * uint64(weight)
			}
		}
		row := out.row(y)
		for x := range w {
			s := sum[3*x:][:3]
			binary.LittleEndian.PutUint32(row[4*x:], round(s[0])|round(s[1])<<8|round(s[2])<<16)
		}
	}
	return out
}

// round drops the fraction of 24 bits.
func round(v uint64) uint32 { return uint32(min((v+1<<23)>>24, 255)) }

func shrinkLine(line []uint32, row []byte, across []span) {
	for x := range across {
		s := &across[x]
		var b, g, r uint32
		at := row[4*s.first:]
		for k, w := range s.weights {
			v := binary.LittleEndian.Uint32(at[4*k:])
			b += v & 0xff * w
			g += v >> 8 & 0xff * w
			r += v >> 16 & 0xff * w
		}
		l := line[3*x:][:3]
		l[0], l[1], l[2] = b>>8, g>>8, r>>8
	}
}
