//go:build cgo && !js

package native

import (
	"fmt"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// Handles counts, by kind, what wgpu-native itself says it holds for a device, in place of what
// this package believes to have made and released.
type Handles map[string]int

// Handles asks the library. Kinds of which it holds none are left out.
func (d *Device) Handles() (Handles, error) {
	if err := d.Enter("count handles", ""); err != nil {
		return nil, err
	}
	defer d.Leave()
	held, err := makeBy((*backend)(d), func(drv *driver) (Handles, error) { return handles(drv.instance), nil })
	if err != nil {
		return nil, fmt.Errorf("native: handles: %w", err)
	}
	return held, nil
}

func handles(instance *wgpu.Instance) Handles {
	held := Handles{}
	all := instance.GenerateReport()
	for _, hub := range []*wgpu.HubReport{all.Vulkan, all.Metal, all.Dx12, all.Dx11, all.Gl} {
		if hub == nil {
			continue
		}
		for kind, report := range map[string]wgpu.StorageReport{
			"adapters": hub.Adapters, "devices": hub.Devices, "buffers": hub.Buffers, "bind groups": hub.BindGroups,
			"bind group layouts": hub.BindGroupLayouts, "pipeline layouts": hub.PipelineLayouts,
			"shader modules": hub.ShaderModules, "compute pipelines": hub.ComputePipelines,
			"command buffers": hub.CommandBuffers,
		} {
			if n := int(report.NumOccupied + report.NumError); n > 0 {
				held[kind] = n
			}
		}
	}
	return held
}
