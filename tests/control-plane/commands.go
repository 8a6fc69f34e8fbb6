package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"
)

const exitCodes = `Exit codes:
  0  done
  1  it failed; stderr says what happened, where, and what to do next
  2  the command line is wrong
  3  no control plane runs there (status, start, stop, audit)
  4  the control plane runs, but not all of its components (status)`

// runCommand is the command line of the control plane itself.
func runCommand(arguments []string) int {
	exit := exitOK
	root := &cobra.Command{
		Use:   "control-plane",
		Short: "A real Kubernetes control plane on this machine, for tests, demos and benchmarks",
		Long: `A real Kubernetes control plane on this machine, for tests, demos and benchmarks: etcd,
kube-apiserver, kube-controller-manager and kube-scheduler, with kwok in the place of kubelets.

This binary is also the components themselves: ` + "`control-plane kubectl …`" + ` is kubectl.

` + exitCodes,
		Example:           "  control-plane up\n  export KUBECONFIG=$(control-plane status -o json | jq -r .kubeconfig)\n  control-plane kubectl get nodes\n  control-plane down",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(upCommand(), downCommand(), statusCommand(&exit), startCommand(), stopCommand(), auditCommand(), serveCommand())
	for _, command := range root.Commands() {
		command.Long = command.Short + ".\n" + command.Long + "\n" + exitCodes
		command.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(err, c) })
		if check := command.Args; check != nil {
			command.Args = func(c *cobra.Command, args []string) error {
				if err := check(c, args); err != nil {
					return usage(err, c)
				}
				return nil
			}
		}
	}
	root.SetArgs(arguments)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		if strings.HasPrefix(err.Error(), "unknown command") {
			fmt.Fprintln(os.Stderr, "  next:  see `control-plane --help`")
			return exitUsage
		}
		return exitCode(err)
	}
	return exit
}

func usage(err error, c *cobra.Command) error {
	return &problem{What: err.Error(), To: c.CommandPath(), Next: "see `" + c.CommandPath() + " --help`", Exit: exitUsage}
}

func upCommand() *cobra.Command {
	var options upOptions
	var format string
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane and wait until it is ready",
		Long: `
It runs until ` + "`control-plane down`" + `, or until the owner ends. When one already runs in that folder,
it says so and how to use it. Any number run side by side in folders of their own.
`,
		Example: `  control-plane up
  control-plane up --dir /tmp/one --owner-pid $$ --stages general
  KUBEBUILDER_ASSETS=/usr/local/kubebuilder/bin control-plane up --bare`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			began := time.Now()
			var err error
			if options.dir, err = resolveDir(options.dir); err != nil {
				return err
			}
			in, err := up(options, os.Stderr)
			if err != nil {
				return err
			}
			r := in.report()
			fmt.Fprintf(os.Stderr, "the control plane is ready at %s (%.1f s)\n", r.Server, time.Since(began).Seconds())
			return show(format, r, r.howToUse)
		},
	}
	dirFlag(c, &options.dir)
	outputFlag(c, &format)
	c.Flags().IntVar(&options.owner, "owner-pid", 0, "end, and remove the folder, when this process ends")
	c.Flags().BoolVar(&options.bare, "bare", false, "etcd and kube-apiserver only; those of $KUBEBUILDER_ASSETS when it is set")
	c.Flags().StringVar(&options.stages, "stages", "fast", "what Pods live through: fast, general (init containers, delays) or none")
	return c
}

func downCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "down",
		Short:   "Stop a control plane and remove its folder",
		Long:    "\nIt leaves nothing behind, also after its daemon was killed.\n",
		Example: "  control-plane down\n  control-plane down --dir /tmp/one",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			resolved, err := resolveDir(dir)
			if err != nil {
				return err
			}
			found, err := down(resolved)
			if err != nil {
				return err
			}
			if !found {
				fmt.Fprintf(os.Stderr, "no control plane runs in %s\n", resolved)
				return nil
			}
			fmt.Fprintf(os.Stderr, "the control plane in %s is gone\n", resolved)
			return nil
		},
	}
	dirFlag(c, &dir)
	return c
}

func statusCommand(exit *int) *cobra.Command {
	var dir, format string
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the components of a control plane",
		Example: "  control-plane status\n  control-plane status -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			resolved, err := resolveDir(dir)
			if err != nil {
				return err
			}
			in, err := load(resolved)
			if err != nil {
				return err
			}
			r := in.report()
			*exit = r.exit()
			return show(format, r, r.table)
		},
	}
	dirFlag(c, &dir)
	outputFlag(c, &format)
	return c
}

func startCommand() *cobra.Command {
	c := componentCommand("start", &request{Verb: "start"})
	c.Short = "Start a component that was stopped, on its old port, and wait until it is ready"
	c.Example = "  control-plane start kube-apiserver"
	return c
}

func stopCommand() *cobra.Command {
	asked := &request{Verb: "stop"}
	c := componentCommand("stop", asked)
	c.Short = "Stop a component and wait until it is gone"
	c.Example = "  control-plane stop kube-apiserver\n  control-plane stop kube-controller-manager --kill --dir /tmp/one"
	c.Flags().BoolVar(&asked.Kill, "kill", false, "by SIGKILL, as in a crash")
	return c
}

func componentCommand(verb string, asked *request) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:  verb + " COMPONENT",
		Long: "\nCOMPONENT is one of " + strings.Join(componentNames, ", ") + ".\n",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			resolved, err := resolveDir(dir)
			if err != nil {
				return err
			}
			in, err := loadRunning(resolved)
			if err != nil {
				return err
			}
			asked.Component = arguments[0]
			if err := checkComponent(asked.Component, in); err != nil {
				return err
			}
			return in.ask(*asked)
		},
	}
	dirFlag(c, &dir)
	return c
}

func auditCommand() *cobra.Command {
	var dir, user, format string
	var since int64
	c := &cobra.Command{
		Use:   "audit",
		Short: "Count the requests the API server answered",
		Long: `
By user, verb, resource and code. A watch counts when it ends. The reads of the control plane's own
components are not in the log, everything else is. --since takes the mark that an earlier count
printed, which is a byte offset into DIR/audit.log.
`,
		Example: "  control-plane audit --user plain\n  control-plane audit --since 12345 -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			resolved, err := resolveDir(dir)
			if err != nil {
				return err
			}
			r, err := countAudit((&instance{dir: resolved}).path("audit.log"), user, since)
			if err != nil {
				return err
			}
			return show(format, r, r.table)
		},
	}
	dirFlag(c, &dir)
	outputFlag(c, &format)
	c.Flags().StringVar(&user, "user", "", "only of users whose name begins with this")
	c.Flags().Int64Var(&since, "since", 0, "only after this mark")
	return c
}

func serveCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Run as the daemon that `up` starts",
		Hidden:  true,
		Example: "  control-plane serve --dir /tmp/one 3>/dev/null",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			unix.CloseOnExec(3) // or `up` would wait for the components' end, too
			return serve(dir, os.NewFile(3, "up"))
		},
	}
	dirFlag(c, &dir)
	return c
}

func dirFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "dir", "", "the control plane's folder (default $HOTSHOE_CONTROL_PLANE_DIR, else target/control-plane/default)")
}

func outputFlag(c *cobra.Command, format *string) {
	c.Flags().StringVarP(format, "output", "o", "text", "text, json or yaml")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"text", "json", "yaml"}, *format) {
			return usage(fmt.Errorf("there is no output format %q", *format), c)
		}
		return nil
	}
}

// show prints for a person or for a script.
func show(format string, value any, text func(io.Writer)) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		out, err := yaml.Marshal(value)
		if err == nil {
			_, err = os.Stdout.Write(out)
		}
		return err
	}
	text(os.Stdout)
	return nil
}
