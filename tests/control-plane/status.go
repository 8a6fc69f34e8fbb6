package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
)

// report is what `status -o json` prints, and `up -o json`: everything a script needs to use it.
type report struct {
	Dir             string            `json:"dir"`
	Running         bool              `json:"running"`
	Ready           bool              `json:"ready"` // started completely, and every component runs
	Bare            bool              `json:"bare"`
	Stages          string            `json:"stages"`
	Server          string            `json:"server"`
	Kubeconfig      string            `json:"kubeconfig"`
	PlainKubeconfig string            `json:"plainKubeconfig"`
	CA              string            `json:"ca"`
	AuditLog        string            `json:"auditLog"`
	Kubectl         string            `json:"kubectl"`
	DaemonPID       int               `json:"daemonPid"`
	Components      []componentReport `json:"components"`
}

type componentReport struct {
	Name        string `json:"name"`
	Status      string `json:"status"`
	PID         int    `json:"pid"`
	Port        int    `json:"port"`
	MemoryBytes int64  `json:"memoryBytes"`
	Log         string `json:"log"`
}

func (in *instance) report() report {
	r := report{Dir: in.dir, Running: in.running(), Components: []componentReport{}}
	if !r.Running {
		return r
	}
	self, _ := os.Executable()
	r.Ready, r.Bare, r.Stages, r.Server = in.Ready, in.Bare, in.Stages, in.server()
	r.Kubeconfig, r.PlainKubeconfig, r.CA = in.kubeconfig(userAdmin), in.kubeconfig(userPlain), in.path("ca.crt")
	r.AuditLog, r.Kubectl, r.DaemonPID = in.path("audit.log"), filepath.Join(filepath.Dir(self), "kubectl"), in.Daemon.PID
	for _, c := range in.Components {
		if c.Status == statusRunning && !c.ID.alive() {
			c.Status = statusFailed
		}
		r.Ready = r.Ready && c.Status == statusRunning
		r.Components = append(r.Components, componentReport{c.Name, c.Status, c.ID.PID, c.Port, c.ID.residentBytes(), in.log(c.Name)})
	}
	return r
}

func (r report) exit() int {
	switch {
	case !r.Running:
		return exitNotRunning
	case !r.Ready:
		return exitIncomplete
	}
	return exitOK
}

func (r report) table(out io.Writer) {
	if !r.Running {
		fmt.Fprintf(out, "no control plane runs in %s\n", r.Dir)
		return
	}
	fmt.Fprintf(out, "%s  daemon %d  %s\n", r.Server, r.DaemonPID, r.Dir)
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "COMPONENT\tSTATUS\tPROCESS\tPORT\tMEMORY")
	total := int64(0)
	for _, c := range r.Components {
		fmt.Fprintf(columns, "%s\t%s\t%d\t%d\t%d MB\n", c.Name, c.Status, c.PID, c.Port, c.MemoryBytes>>20)
		total += c.MemoryBytes
	}
	columns.Flush()
	fmt.Fprintf(out, "%d MB in all\n", total>>20)
}

// howToUse prints the last lines of `up`: how to use the control plane.
func (r report) howToUse(out io.Writer) {
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", r.Kubeconfig)
	if _, err := exec.LookPath("kubectl"); err != nil {
		fmt.Fprintf(out, "alias kubectl=%s  # there is no kubectl on your PATH\n", r.Kubectl)
	}
	for _, c := range r.Components {
		if c.Status != statusRunning {
			fmt.Fprintf(out, "# %s is %s; start it with: control-plane start %s --dir %s\n", c.Name, c.Status, c.Name, r.Dir)
		}
	}
}
