package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// down stops everything of an instance and removes its folder. It needs only the state file of the
// daemon, so it also cleans up after a daemon that was killed.
func down(dir string) (found bool, err error) {
	if err := checkOurs(dir); err != nil {
		return false, err
	}
	unlock, err := lock(dir, false)
	if err != nil || unlock == nil {
		return false, err
	}
	defer unlock()
	in, err := load(dir)
	if err != nil {
		return false, err
	}
	if err := in.halt(); err != nil {
		return true, err
	}
	return in.Daemon.PID != 0, in.remove()
}

// halt ends the daemon and every component that is still the process we started, and waits until
// their ports are free.
func (in *instance) halt() error {
	in.Daemon.signal(syscall.SIGTERM)
	if !in.Daemon.awaitEnd(15 * time.Second) {
		in.Daemon.signal(syscall.SIGKILL)
		in.Daemon.awaitEnd(5 * time.Second)
	}
	// Read the state again: the daemon wrote it until it ended.
	last, err := load(in.dir)
	if err != nil {
		return err
	}
	for _, component := range last.Components {
		component.ID.signal(syscall.SIGKILL)
	}
	for _, component := range last.Components {
		if !component.ID.awaitEnd(10 * time.Second) {
			return &problem{What: fmt.Sprintf("%s does not end", component.Name), To: fmt.Sprintf("process %d", component.ID.PID), Next: "end it by hand, then run `control-plane down` again"}
		}
		if component.ID.PID != 0 {
			awaitPortFree(component.Port, 5*time.Second)
		}
	}
	return nil
}

// empty clears the folder but keeps it, and with it the lock that is held on it.
func (in *instance) empty() error {
	in.removeVolumes()
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(in.path(entry.Name())); err != nil {
			return &problem{What: "a leftover cannot be removed: " + err.Error(), To: in.dir, Next: "remove the folder by hand"}
		}
	}
	return nil
}
