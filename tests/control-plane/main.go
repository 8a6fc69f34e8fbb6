// Control-plane is a real Kubernetes control plane for one machine: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl linked into one multi-call binary, and the
// commands that start, stop and inspect it. Nothing is mocked, nothing needs a container.
package main

import (
	"os"
	"path/filepath"
)

func main() {
	// Children are started with the component's own name as argv[0], so that `ps` tells them
	// apart, and `kubectl` is a symbolic link to this binary.
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if _, known := programs[name]; !known && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if run, known := programs[name]; known {
		os.Args = append([]string{name}, args...)
		run()
		return
	}
	os.Exit(runCommand(os.Args[1:]))
}
