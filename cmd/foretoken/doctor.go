//go:build !js

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/bench"
)

type doctorOptions struct {
	models modelOptions
	repeat int
	out    string
	json   bool
}

func doctorCommand(c *console) *cobra.Command {
	o := doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check and measure a device, for comparison with others",
		Long: "Compare the device's kernels with references that the processor computes in float64, time products\n" +
			"with a large matrix for each family of kernels, and measure T(M), the time of the models' passes over\n" +
			"M rows; of the cpu device also how fast one thread and all threads read memory. The report names\n" +
			"adapter, features, limits and the kernels chosen.\n\n" +
			"Nothing is sent anywhere. A wrong kernel ends with exit code 1.",
		Example: `  foretoken doctor
  foretoken doctor --out report.json
  foretoken doctor --device cpu --json`,
		Args: flagsOnly,
		RunE: checkedRun(o.complete, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.models.flags(f)
	f.IntVar(&o.repeat, "repeat", 5, "timed passes of each kind")
	f.StringVar(&o.out, "out", "", "write the report to this file, as JSON")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	return cmd
}

func (o *doctorOptions) complete(given *pflag.FlagSet) error {
	if err := o.models.check(); err != nil {
		return err
	}
	if err := checkMinimums(given, []minimum{{"repeat", o.repeat, 1}}); err != nil {
		return err
	}
	if err := checkFileNames(given, "out"); err != nil {
		return err
	}
	return checkFolders(o.out)
}

func (o *doctorOptions) run(ctx context.Context, c *console) error {
	report, err := measureSession(ctx, c, &o.models, "parts",
		func(s *session, progress func(done, total int)) (*bench.DoctorReport, error) {
			return bench.Diagnose(ctx, s.Session, bench.DoctorOptions{Repeat: o.repeat, Progress: progress})
		})
	if err != nil {
		return err
	}
	if err := writeJSON(o.out, report); err != nil {
		return err
	}
	if o.json {
		err = printIndented(c, "  ", report)
	} else {
		for _, line := range report.Summary {
			if _, err = fmt.Fprintln(c.out, line); err != nil {
				break
			}
		}
	}
	if wrong := report.Wrong(); err == nil && wrong > 0 {
		err = fmt.Errorf("doctor: %d of %d kernels are wrong on this device; --device cpu is not affected", wrong,
			len(report.Checks))
	}
	return err
}
