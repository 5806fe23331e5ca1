package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"foretoken/models/gguf"

	"github.com/x448/float16"
)

// encodeQ4_K encodes blocks of 256 elements: eight of 32, each with a scale and a minimum of six bits, in units of two
// half-precision numbers.
func encodeQ4_K(src []float32, dst []byte) error {
	for i := 0; i < len(src); i += 256 {
		x, block := src[i:][:256], dst[i/256*144:][:144]
		for j, v := range x {
			if v-v != 0 { // infinite or not a number
				return tooLarge(gguf.Q4_K, i+j, v)
			}
		}
		var scales, mins [8]float32
		var mostScale, mostMin float32
		for j := range scales {
			scales[j], mins[j] = fitQ4(x[32*j:][:32])
			mostScale, mostMin = max(mostScale, scales[j]), max(mostMin, mins[j])
		}
		halves := [2]float16.Float16{float16.Fromfloat32(mostScale / 63), float16.Fromfloat32(mostMin / 63)}
		for j, h := range halves {
			if h.IsInf(0) {
				return fmt.Errorf("quant: elements %d to %d are too large for %s: a scale is beyond half precision", i,
					i+255, gguf.Q4_K)
			}
			binary.LittleEndian.PutUint16(block[2*j:], h.Bits())
		}
		sixBits := block[4:16]
		clear(sixBits)
		for j := range scales {
			s := byte(nearest(reciprocal(mostScale/63)*scales[j], 63))
			m := byte(nearest(reciprocal(mostMin/63)*mins[j], 63))
			if j < 4 {
				sixBits[j], sixBits[j+4] = s, m
			} else {
				sixBits[j+4] = s&15 | m<<4
				sixBits[j-4] |= s >> 4 << 6
				sixBits[j] |= m >> 4 << 6
			}
		}
		var codes [256]byte
		for j := range scales {
			s, m := SixBits(sixBits, j)
			d, least := halves[0].Float32()*float32(s), halves[1].Float32()*float32(m)
			for l, v := range x[32*j:][:32] {
				codes[32*j+l] = byte(nearest((v+least)*reciprocal(d), 15))
			}
		}
		for j := range 4 {
			for l := range 32 {
				block[16+32*j+l] = codes[64*j+l] | codes[64*j+32+l]<<4
			}
		}
	}
	return nil
}

// nearest rounds to a number from 0 to most.
func nearest(x float32, most int) int { return max(0, min(most, int(math.RoundToEven(float64(x))))) }

// fitQ4 returns the scale and the minimum, negated, with which 16 steps represent x with the least error: it tries 21
// ranges around the range of x and fits both by least squares. Elements weigh more the larger they are, as in ggml.
func fitQ4(x []float32) (scale, least float32) {
	var squares, sumW, sumX float32
	low, high := float32(0), x[0]
	for _, v := range x {
		squares += v * v
		low, high = min(low, v), max(high, v)
	}
	if low == high {
		return 0, -low
	}
	mean := float32(math.Sqrt(float64(squares / float32(len(x)))))
	for _, v := range x {
		sumW += mean + abs(v)
		sumX += (mean + abs(v)) * v
	}
	err := func(scale, offset float32, inverse float32) (sum float32) {
		for _, v := range x {
			d := scale*float32(nearest(inverse*(v-low), 15)) + offset - v
			sum += (mean + abs(v)) * d * d
		}
		return sum
	}
	scale, offset := (high-low)/15, low
	best := err(scale, offset, 15/(high-low))
	for step := range 21 {
		inverse := (14 + 0.1*float32(step)) / (high - low)
		var sumL, sumL2, sumXL float32
		for _, v := range x {
			w, l := mean+abs(v), float32(nearest(inverse*(v-low), 15))
			sumL, sumL2, sumXL = sumL+w*l, sumL2+w*l*l, sumXL+w*l*v
		}
		det := sumW*sumL2 - sumL*sumL
		if det <= 0 {
			continue
		}
		s, o := (sumW*sumXL-sumX*sumL)/det, (sumL2*sumX-sumL*sumXL)/det
		if o > 0 {
			s, o = sumXL/sumL2, 0
		}
		if e := err(s, o, inverse); e < best {
			best, scale, offset = e, s, o
		}
	}
	return scale, -offset
}
