//go:build cgo && !js

package native

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"foretoken/webgpu"
)

// quiet turns off the library's and the drivers' messages on standard error: errors carry the important ones, and
// an absent driver is not worth a line. It also leaves out Mesa's layer that asks the desktop for the preferred
// GPU, because without a desktop session it complains at every enumeration.
var quiet = sync.OnceFunc(func() {
	wgpu.SetLogLevel(wgpu.LogLevel_Off)
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		os.Setenv("NODEVICE_SELECT", "1")
	}
})

// Adapters lists what Open could open, best first. Features are empty: only an open device has them.
func Adapters() ([]webgpu.Info, error) {
	quiet()
	instance := newInstance()
	defer instance.Release()
	found := enumerate(instance, false)
	infos := make([]webgpu.Info, len(found))
	for i, a := range found {
		infos[i] = describe(a.GetProperties(), adapterLimits(a))
		a.Release()
	}
	return infos, nil
}

func newInstance() *wgpu.Instance {
	return wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: wgpu.InstanceBackend_Primary})
}

// kinds lists all kinds of adapters, the fastest first.
var kinds = []wgpu.AdapterType{wgpu.AdapterType_DiscreteGPU, wgpu.AdapterType_IntegratedGPU, wgpu.AdapterType_Unknown,
	wgpu.AdapterType_CPU}

// enumerate returns the adapters that compute, the fastest kind first, or those that only compile. Mesa's RADV calls
// the latter null hardware.
func enumerate(instance *wgpu.Instance, null bool) []*wgpu.Adapter {
	found := instance.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: wgpu.InstanceBackend_Primary})
	found = slices.DeleteFunc(found, func(a *wgpu.Adapter) bool {
		other := strings.Contains(a.GetProperties().Name, "Null hardware") != null
		if other {
			a.Release()
		}
		return other
	})
	rank := func(a *wgpu.Adapter) int { return slices.Index(kinds, a.GetProperties().AdapterType) }
	slices.SortStableFunc(found, func(a, b *wgpu.Adapter) int { return rank(a) - rank(b) })
	return found
}

// adapterLimits are the most that a device on the adapter can be opened with, of the limits the contract knows.
func adapterLimits(a *wgpu.Adapter) webgpu.Limits {
	l := a.GetLimits().Limits
	out := webgpu.DefaultLimits()
	raise := func(limit *int, offered uint64) {
		// Sizes stay below 2 GiB, the most that 32-bit shader indices and the drivers' own arithmetic are safe with.
		*limit = max(*limit, int(min(offered, 1<<31-4)))
	}
	raise(&out.MaxBindingSize, l.MaxStorageBufferBindingSize&^3)
	raise(&out.MaxBufferSize, l.MaxBufferSize&^3)
	raise(&out.MaxStorageBuffers, uint64(l.MaxStorageBuffersPerShaderStage))
	raise(&out.MaxWorkgroupStorage, uint64(l.MaxComputeWorkgroupStorageSize))
	raise(&out.MaxWorkgroupInvocations, uint64(min(l.MaxComputeInvocationsPerWorkgroup, l.MaxComputeWorkgroupSizeX,
		l.MaxComputeWorkgroupSizeY)))
	raise(&out.MaxWorkgroupsPerDim, uint64(l.MaxComputeWorkgroupsPerDimension))
	return out
}

func describe(p wgpu.AdapterProperties, limits webgpu.Limits) webgpu.Info {
	driver := p.BackendType.String()
	if p.DriverDescription != "" {
		driver += ", " + p.DriverDescription
	}
	return webgpu.Info{
		Backend:      "native",
		Adapter:      p.Name,
		Vendor:       p.VendorName,
		Architecture: p.Architecture,
		Driver:       driver,
		Software:     p.AdapterType == wgpu.AdapterType_CPU,
		Limits:       limits,
	}
}
