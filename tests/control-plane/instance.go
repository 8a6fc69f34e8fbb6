package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// instance is one control plane: everything it owns is under dir, but for the volumes the
// hostpath provisioner makes (see volumes.go) and a socket whose path would be too long.
//
//	DIR/kubeconfig, plain.kubeconfig, ca.crt   for its users
//	DIR/audit.log                              every request, one JSON event a line
//	DIR/log/NAME.log                           the output of each component and of the daemon
//	DIR/state/instance.json                    the state below
//	DIR/pki, etcd, kwok, config                what the components need
type instance struct {
	dir string
	state
}

// state outlives the processes. The daemon writes it at every change, and all commands read it.
type state struct {
	Bare       bool             `json:"bare"`
	Stages     string           `json:"stages"`
	Assets     string           `json:"assets,omitempty"` // folder of foreign etcd and kube-apiserver binaries
	Daemon     identity         `json:"daemon"`
	Owner      *identity        `json:"owner,omitempty"`
	Socket     string           `json:"socket"`
	Ready      bool             `json:"ready"`
	Ports      map[string]int   `json:"ports"`
	Components []componentState `json:"components"`
}

// componentState is what the daemon knows about one of its children.
type componentState struct {
	Name   string   `json:"name"`
	Status string   `json:"status"`
	Port   int      `json:"port"`
	ID     identity `json:"process"`
}

const (
	statusStarting = "starting"
	statusRunning  = "running"
	statusStopped  = "stopped" // on request
	statusFailed   = "failed"  // it ended by itself
)

func (in *instance) path(parts ...string) string {
	return filepath.Join(append([]string{in.dir}, parts...)...)
}
func (in *instance) pki(name string) string    { return in.path("pki", name) }
func (in *instance) config(name string) string { return in.path("config", name) }
func (in *instance) log(name string) string    { return in.path("log", name+".log") }
func (in *instance) stateFile() string         { return in.path("state", "instance.json") }
func (in *instance) server() string            { return "https://" + address(in.Ports[kubeAPIServer]) }

// running reports whether the daemon lives; a state file may outlive it.
func (in *instance) running() bool { return in.Daemon.alive() }

// resolveDir returns the instance's folder: that of the flag, else of the environment, else a fixed
// place beside this binary's folder.
func resolveDir(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = os.Getenv("HOTSHOE_CONTROL_PLANE_DIR")
	}
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(self), "..", "default")
	}
	return filepath.Abs(dir)
}

// load reads an instance. One that was never started, or was taken down, loads empty.
func load(dir string) (*instance, error) {
	in := &instance{dir: dir}
	text, err := os.ReadFile(in.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &in.state)
	}
	if err != nil {
		return nil, &problem{What: "the state of the control plane cannot be read: " + err.Error(), To: in.stateFile(),
			Next: "remove " + dir + " when nothing in it runs any more"}
	}
	return in, nil
}

// loadRunning is load for commands that need a running control plane.
func loadRunning(dir string) (*instance, error) {
	in, err := load(dir)
	if err != nil {
		return nil, err
	}
	if !in.running() {
		return nil, &problem{What: "no control plane runs", To: dir, Next: "start one with `control-plane up --dir " + dir + "`", Exit: exitNotRunning}
	}
	return in, nil
}

// save replaces the state file atomically, so that a reader never sees half of it.
func (in *instance) save() error {
	text, err := json.MarshalIndent(in.state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(in.stateFile()), 0o700); err != nil {
		return err
	}
	fresh := in.stateFile() + ".new"
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, in.stateFile())
}

// lock makes `up` and `down` of one folder take turns. The lock is on the folder itself, so that
// no file is left beside it; a process that waited while the folder was removed creates it again and retries.
// Without create, a folder that does not exist needs no lock and nil is returned.
func lock(dir string, create bool) (unlock func(), err error) {
	for {
		if create {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, &problem{What: "the folder cannot be made: " + err.Error(), To: dir, Next: "choose another with --dir"}
			}
		}
		folder, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) && !create {
			return nil, nil
		}
		if err != nil {
			return nil, &problem{What: "the folder cannot be opened: " + err.Error(), To: dir, Next: "choose another with --dir"}
		}
		for err = syscall.EINTR; err == syscall.EINTR; {
			err = unix.Flock(int(folder.Fd()), unix.LOCK_EX)
		}
		held, _ := folder.Stat()
		if now, gone := os.Stat(dir); err == nil && gone == nil && os.SameFile(held, now) {
			return func() { folder.Close() }, nil
		}
		folder.Close()
		if err != nil {
			return nil, &problem{What: "the folder cannot be locked: " + err.Error(), To: dir, Next: "choose one on a local file system with --dir"}
		}
	}
}

// checkOurs refuses a folder with things in it that no control plane put there: `down` removes
// the whole folder.
func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return asProblem(err, dir, "choose another folder with --dir")
	}
	if _, err := os.Stat((&instance{dir: dir}).stateFile()); err != nil {
		return &problem{What: "the folder holds something else than a control plane", To: dir, Next: "choose an empty or absent folder with --dir", Exit: exitUsage}
	}
	return nil
}

// chooseSocket finds a path short enough for a unix socket (108 bytes with the final zero).
func (in *instance) chooseSocket() error {
	if in.Socket = in.path("state", "control.sock"); len(in.Socket) < 100 {
		return nil
	}
	short, err := os.MkdirTemp("/tmp", "hotshoe-control-plane-")
	in.Socket = filepath.Join(short, "control.sock")
	return err
}

// remove deletes everything the instance left on disk.
func (in *instance) remove() error {
	in.removeVolumes()
	if folder := filepath.Dir(in.Socket); strings.HasPrefix(folder, "/tmp/hotshoe-control-plane-") {
		os.RemoveAll(folder)
	}
	// A component that was just killed may have created another file meanwhile; a second attempt is enough.
	err := os.RemoveAll(in.dir)
	if err != nil {
		time.Sleep(50 * time.Millisecond)
		err = os.RemoveAll(in.dir)
	}
	if err != nil {
		return &problem{What: "the folder cannot be removed: " + err.Error(), To: in.dir, Next: "remove it by hand"}
	}
	return nil
}

// tail returns the end of a log, which shows why a start failed.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return fmt.Sprintf("(%s is empty)", path)
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
