package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// identity identifies a process permanently. A PID alone is reused sooner or later; a PID with its
// start time (clock ticks since boot, /proc/PID/stat field 22) is not.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// identify reads the identity of a running process. A zombie counts as gone, because it holds no resources.
func identify(pid int) (identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, fmt.Errorf("process %d is not running", pid)
	}
	// Field 2 is the command name in parentheses and may itself contain spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return identity{}, fmt.Errorf("process %d has ended", pid)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return identity{}, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return identity{PID: pid, Start: start}, nil
}

func (id identity) alive() bool {
	if id.PID <= 0 {
		return false
	}
	now, err := identify(id.PID)
	return err == nil && now == id
}

// signal sends a signal only if the process is still the same.
func (id identity) signal(sig syscall.Signal) {
	if id.alive() {
		_ = syscall.Kill(id.PID, sig)
	}
}

// awaitEnd reports whether the process was gone before the deadline.
func (id identity) awaitEnd(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); id.alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// residentBytes returns the resident memory of a process, or 0 when it cannot be read.
func (id identity) residentBytes() int64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id.PID))
	if err != nil || !id.alive() {
		return 0
	}
	var size, resident int64
	_, _ = fmt.Sscan(string(statm), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// onEnd returns a channel that is closed when the process ends, however it ends. It waits on a
// pidfd, which costs nothing while the process lives.
func (id identity) onEnd() (<-chan struct{}, error) {
	ended := make(chan struct{})
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == unix.ESRCH || (err == nil && !id.alive()) {
		if err == nil {
			unix.Close(fd)
		}
		close(ended)
		return ended, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d: %w", id.PID, err)
	}
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err != unix.EINTR {
				return
			}
		}
	}()
	return ended, nil
}

// spawner starts children that the kernel kills when the daemon dies, even by SIGKILL.
// PR_SET_PDEATHSIG fires when the *thread* that forked ends, and Go ends threads as it likes, so
// every child is started from one thread that never ends.
type spawner chan func()

func newSpawner() spawner {
	s := make(spawner)
	go func() {
		runtime.LockOSThread()
		for job := range s {
			job()
		}
	}()
	return s
}

func (s spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s <- func() { started <- cmd.Start() }
	return <-started
}
