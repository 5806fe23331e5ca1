package simd

import (
	"bytes"
	"fmt"

	"foretoken/webgpu"
)

// check runs dispatches that the module has at once and in parts: see Options.
func (d *backend) check(p *program, from, to int) error {
	for i := from; i < to; i++ {
		s := &p.Steps[i]
		before := d.writable(s)
		if err := d.runParts(p, i, 1); err != nil {
			return err
		}
		want := d.writable(s)
		d.restore(s, before)
		if err := d.runParts(p, i, d.parts); err != nil {
			return err
		}
		for j, got := range d.writable(s) {
			if !bytes.Equal(got, want[j]) {
				return fmt.Errorf("program %s, dispatch %d, kernel %s: %d parts write other bytes to binding %d",
					p.Label, i, s.Kernel.Source.Name, d.parts, j)
			}
		}
	}
	return nil
}

// runParts runs a dispatch in parts, with a scratch in which nothing is zero.
func (d *backend) runParts(p *program, i, parts int) error {
	d.module.put(d.scratch, bytes.Repeat([]byte{0xa5}, d.scratched))
	return d.launch(p, i, i+1, 1, parts)
}

// writable copies the writable bindings of a dispatch; read-only bindings give nil.
func (d *backend) writable(s *step) [][]byte {
	held := make([][]byte, len(s.Bindings))
	for j, b := range s.Bindings {
		if s.Kernel.Source.Bindings[j] == webgpu.ReadWrite {
			held[j] = make([]byte, b.Size)
			d.module.get(b.Buffer.Data+address(b.Offset), held[j])
		}
	}
	return held
}

func (d *backend) restore(s *step, held [][]byte) {
	for j, b := range s.Bindings {
		d.module.put(b.Buffer.Data+address(b.Offset), held[j])
	}
}
