package pair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"foretoken/webgpu"
)

// named is a device that has a name and can be destroyed.
type named struct {
	webgpu.Device
	name      string
	destroyed bool
}

func (d *named) Info() webgpu.Info { return webgpu.Info{Adapter: d.name} }
func (d *named) Destroy()          { d.destroyed = true }

// TestOpenAgainWaits makes no device available for a while, or for good.
func TestOpenAgainWaits(t *testing.T) {
	for _, c := range []struct {
		fails int // attempts
		takes time.Duration
	}{{0, 0}, {1, 200 * time.Millisecond}, {3, 3200 * time.Millisecond}, {4, 3200 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			tried, begin := 0, time.Now()
			dev, err := openAgain(t.Context(), func(context.Context) (webgpu.Device, error) {
				if tried++; tried <= c.fails {
					return nil, fmt.Errorf("test: %w", webgpu.ErrUnavailable)
				}
				return &named{name: "abacus"}, nil
			}, &webgpu.Info{Adapter: "abacus"})
			if took := time.Since(begin); took != c.takes {
				t.Errorf("%d failures: took %v, want %v", c.fails, took, c.takes)
			}
			if failed := c.fails > 3; failed != errors.Is(err, webgpu.ErrUnavailable) || failed != (dev == nil) {
				t.Errorf("%d failures: %v, %v", c.fails, dev, err)
			}
		})
	}
}

// TestOpenAgainEnds ends with the request, and at once with another error.
func TestOpenAgainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		begin := time.Now()
		for _, c := range []struct {
			fails, want error
			by          time.Duration
		}{{errors.New("broken"), nil, 0}, {webgpu.ErrUnavailable, context.DeadlineExceeded, time.Second}} {
			_, err := openAgain(ctx, func(context.Context) (webgpu.Device, error) { return nil, c.fails }, nil)
			if took := time.Since(begin); err == nil || c.want != nil && !errors.Is(err, c.want) || took != c.by {
				t.Errorf("%v: %v after %v", c.fails, err, took)
			}
		}
	})
}

// TestOpenAgainRefusesAnotherDevice: other kernels may compute other bits.
func TestOpenAgainRefusesAnotherDevice(t *testing.T) {
	other := &named{name: "another abacus"}
	_, err := openAgain(t.Context(), func(context.Context) (webgpu.Device, error) { return other, nil },
		&webgpu.Info{Adapter: "abacus"})
	if err == nil || !strings.Contains(err.Error(), `abacus was lost and another abacus opened`) || !other.destroyed {
		t.Errorf("%v, destroyed: %t", err, other.destroyed)
	}
}
