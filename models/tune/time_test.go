package tune

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/matmul"
)

// paced is a device on which each program takes the next of some times, by a clock that the test owns.
type paced struct {
	webgpu.Device
	takes []time.Duration // by program, in the order in which they were made
	wait  time.Duration   // for a submit, more by a fifth of it at every other one
	order []webgpu.Program
	runs  int
}

func (d *paced) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	p, err := d.Device.NewProgram(label, dispatches)
	d.order = append(d.order, p)
	return p, err
}

func (d *paced) Run(programs []webgpu.Program, _ ...webgpu.Region) error {
	time.Sleep(d.wait + d.wait/5*time.Duration(d.runs%2))
	for _, p := range programs {
		for i, known := range d.order {
			if p == known {
				time.Sleep(d.takes[i%len(d.takes)])
			}
		}
	}
	d.runs++
	return nil
}

// raised is a device whose clock rises while it runs, from a fifth of its speed to all of it.
type raised struct {
	webgpu.Device
	rises time.Duration // of running until it is at full speed
	ran   time.Duration
	last  time.Duration // of the last program
}

func (d *raised) Run(programs []webgpu.Program, _ ...webgpu.Region) error {
	for range programs {
		slow := 1 + 4*max(0, 1-float64(d.ran)/float64(d.rises+1))
		d.last = time.Duration(float64(100*time.Microsecond) * slow)
		time.Sleep(d.last)
		d.ran += d.last
	}
	return nil
}

// TestBegin warms devices up that need no time, some, and more than there is.
func TestBegin(t *testing.T) {
	for _, c := range []struct{ rises, least, most, last time.Duration }{
		{0, settled, settled + 10*time.Millisecond, 100 * time.Microsecond},
		{300 * time.Millisecond, 300 * time.Millisecond, 2 * settled, 100 * time.Microsecond},
		{2 * time.Second, 2 * settled, 2*settled + 100*time.Millisecond, 400 * time.Microsecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			dev, begin := &raised{rises: c.rises}, time.Now()
			timer := &Timer{Device: dev}
			if err := timer.Begin(1, settled); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < c.least || took > c.most || dev.last > c.last {
				t.Errorf("rising for %v: took %v, the last program %v; want %v to %v, and %v", c.rises, took, dev.last,
					c.least, c.most, c.last)
			}
		})
	}
}

// TestTimingEnds times devices of every speed: the second of two programs is chosen if it is clearly faster, and the
// first one where runs take so long that the budget ends.
func TestTimingEnds(t *testing.T) {
	for _, c := range []struct {
		wait, first, second time.Duration
		want, most          int // most submits of one choice
		choices             int // timed, of 10
	}{
		{0, 100 * time.Microsecond, 80 * time.Microsecond, 1, 18, 10},
		{0, 100 * time.Microsecond, 98 * time.Microsecond, 0, 18, 10},
		{3 * time.Millisecond, 40 * time.Microsecond, 25 * time.Microsecond, 1, 18, 10}, // a GPU in a browser
		{3 * time.Millisecond, 25 * time.Microsecond, 40 * time.Microsecond, 0, 18, 10},
		{0, 40 * time.Millisecond, 20 * time.Millisecond, 1, 12, 7},
		{0, 20 * time.Millisecond, 90 * time.Millisecond, 0, 8, 8},
		{0, 400 * time.Millisecond, 100 * time.Millisecond, 1, 8, 2},
		{0, 400 * time.Millisecond, 300 * time.Millisecond, 0, 8, 1},
		{0, 30 * time.Second, 10 * time.Second, 0, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			dev := &paced{Device: kerneltest.Reference(t), takes: []time.Duration{c.first, c.second}, wait: c.wait}
			scratch, err := dev.NewBuffer("scratch", 256, webgpu.Storage)
			if err != nil {
				t.Fatal(err)
			}
			config := Config{Device: dev, Scratch: kernels.View{Buffer: scratch, Size: 256}}
			timer := newTimer(&Tuning{config: config}, budget)
			empty := func(*kernels.Recorder) {}
			begin, timed := time.Now(), 0
			for range 10 {
				before := dev.runs
				got, err := timer.choose("a class", []func(*kernels.Recorder){empty, empty})
				if err != nil {
					t.Fatal(err)
				}
				if dev.runs == before {
					if got != 0 {
						t.Errorf("%v and %v: chose %d without timing", c.first, c.second, got)
					}
					continue
				}
				// The first choice warms the device up too.
				if timed++; timed == 1 && got != c.want || timed > 1 && dev.runs-before > c.most {
					t.Errorf("%v and %v: chose %d in %d submits, want %d in at most %d", c.first, c.second, got,
						dev.runs-before, c.want, c.most)
				}
			}
			if took := time.Since(begin); took > budget+2*settled+4*max(c.first, c.second) {
				t.Errorf("%v and %v: timing took %v", c.first, c.second, took)
			}
			if timed != c.choices {
				t.Errorf("%v and %v: timed %d of 10 choices, want %d", c.first, c.second, timed, c.choices)
			}
		})
	}
}

// wrongProducts is a device whose compiler gets packed products wrong.
type wrongProducts struct{ webgpu.Device }

func (d wrongProducts) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	wrong := slices.Clone(sources)
	for i, s := range sources {
		text := strings.Replace(s.Shader(), "* 256 +", "* 255 +", 1)
		wrong[i] = &webgpu.KernelSource{Name: s.Name, Key: s.Key + " wrong", WGSL: func() string { return text },
			Bindings: s.Bindings}
	}
	return d.Device.NewKernels(wrong)
}

// TestPackedProductsAreChecked compares packed products with others on a device that has them, and on one that gets
// them wrong.
func TestPackedProductsAreChecked(t *testing.T) {
	dev := kerneltest.Accelerator(t)
	if !dev.Info().Has(matmul.DotProduct) {
		t.Skip("the device has no packed products")
	}
	b := kerneltest.New(t, dev)
	weight := kerneltest.NewWeight(kernels.Q4_0, 64, 256)
	up := weight.Upload(b, 64)
	defer weight.Free(b, up)
	x, out := b.Poisoned(TimedRows*256), b.Poisoned(TimedRows*64)
	rounded := b.Poisoned(TimedRows * matmul.PackedWords(256))
	defer b.Free(x, out, rounded)
	families := matmul.Families(dev.Info(), kernels.Q4_0)
	for _, wrong := range []bool{false, true} {
		config := Config{Device: dev, Matrices: []Matrix{{[]*kernels.Weight{up}, x, out}}, Rounded: rounded}
		if wrong {
			config.Device = wrongProducts{dev}
		}
		timed := newTimer(&Tuning{config: config}, 0)
		right, err := timed.agrees(up, families[len(families)-1], families[0])
		timed.free()
		if err != nil || right == wrong {
			t.Errorf("products that are wrong: %v; agrees returns %v, %v", wrong, right, err)
		}
	}
}
