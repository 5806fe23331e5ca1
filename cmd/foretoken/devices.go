//go:build !js

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"foretoken/bench"
	"foretoken/internal/quote"
	"foretoken/models/graph"
	"foretoken/webgpu/open"
)

// deviceInfo is a device in the list.
type deviceInfo struct {
	bench.Adapter
	Auto bool `json:"auto"` // --device auto takes it
}

func devicesCommand(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices that models can run on",
		Args:  flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			devices, why, err := listDevices(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printIndented(c, "  ", struct {
					Devices []deviceInfo `json:"devices"`
					Note    string       `json:"note,omitempty"` // why auto takes the cpu
				}{devices, why})
			}
			for _, d := range devices {
				if err := d.print(c); err != nil {
					return err
				}
			}
			if why != "" {
				c.note("auto takes the processor: %s", why)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listDevices lists the adapters and the cpu device, and opens the one that auto takes: a listed adapter may still
// refuse to open.
func listDevices(ctx context.Context) (devices []deviceInfo, why string, err error) {
	adapters, err := open.Adapters()
	if err != nil {
		return nil, "", err
	}
	dev, why, err := open.Device(ctx, "auto")
	if err != nil {
		return nil, "", err
	}
	taken := dev.Info()
	dev.Destroy()
	host, _, err := open.Device(ctx, "cpu")
	if err != nil {
		return nil, "", err
	}
	adapters = append(adapters, host.Info())
	host.Destroy()
	found := false
	for _, a := range adapters {
		d := deviceInfo{Adapter: bench.DescribeAdapter(a)}
		if !found && a.Backend == taken.Backend && a.Adapter == taken.Adapter && a.Driver == taken.Driver {
			found, d.Auto = true, true
			d.Features = taken.Features
		}
		devices = append(devices, d)
	}
	return devices, why, nil
}

func (d *deviceInfo) print(c *console) error {
	var mark, features, driver string
	if d.Auto {
		mark = ", taken by auto"
	}
	if len(d.Features) > 0 {
		features = "  features " + strings.Join(d.Features, ", ") + "\n"
	}
	if d.Driver != "" {
		driver = "  driver   " + quote.Name(d.Driver) + "\n"
	}
	l := d.Limits
	_, err := fmt.Fprintf(c.out, "%s: %s (%s%s)\n%s%s  limits   %s a binding, %s a buffer, %d storage buffers, "+
		"%s and %d invocations a workgroup, %d workgroups a dimension\n",
		d.Backend, quote.Name(d.Name), d.Type, mark, driver, features,
		graph.Size(int64(l.BindingBytes)), graph.Size(int64(l.BufferBytes)), l.StorageBuffers,
		graph.Size(int64(l.WorkgroupBytes)), l.WorkgroupInvocations, l.Workgroups)
	return err
}
