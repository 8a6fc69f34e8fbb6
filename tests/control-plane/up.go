package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type upOptions struct {
	dir    string
	owner  int
	bare   bool
	stages string
}

// up starts a control plane, unless one runs in that folder, and returns when it is ready.
func up(options upOptions, progress io.Writer) (*instance, error) {
	fresh := state{Bare: options.bare, Stages: options.stages}
	if _, err := stagesYAML(options.stages); err != nil {
		return nil, err
	}
	if options.owner != 0 {
		owner, err := identify(options.owner)
		if err != nil {
			return nil, &problem{What: "there is no owner to live as long as: " + err.Error(), To: "--owner-pid", Next: "give the id of a running process", Exit: exitUsage}
		}
		fresh.Owner = &owner
	}
	if options.bare {
		if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
			var err error
			if fresh.Assets, err = filepath.Abs(assets); err != nil {
				return nil, err
			}
		}
	}
	if err := checkOurs(options.dir); err != nil {
		return nil, err
	}
	unlock, err := lock(options.dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	in, err := load(options.dir)
	if err != nil {
		return nil, err
	}
	if in.running() && in.Ready {
		fmt.Fprintln(progress, "it already runs")
		return in, nil
	}
	if in.Daemon.PID != 0 {
		fmt.Fprintln(progress, "clearing away what an earlier one left behind")
		if err := in.halt(); err != nil {
			return nil, err
		}
		if err := in.empty(); err != nil {
			return nil, err
		}
	}
	in = &instance{dir: options.dir, state: fresh}
	if err := in.chooseSocket(); err != nil {
		return nil, err
	}
	if err := in.save(); err != nil {
		return nil, asProblem(err, options.dir, "choose another folder with --dir")
	}
	if err := in.startDaemon(progress); err != nil {
		_ = in.halt()
		_ = in.remove()
		return nil, err
	}
	return load(options.dir)
}

// startDaemon runs `control-plane serve` in a session of its own and follows it until it is ready.
func (in *instance) startDaemon(progress io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(in.path("log"), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(in.log("daemon"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	listen, speak, err := os.Pipe()
	if err != nil {
		return err
	}
	defer listen.Close()
	// File descriptors that were inherited by accident (a build tool's pipes) must not stay open in the daemon.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	cmd := exec.Command(self, "serve", "--dir", in.dir)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.ExtraFiles = []*os.File{speak}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	speak.Close()
	if err != nil {
		return err
	}
	in.Daemon, _ = identify(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // a zombie would look like a daemon that does not end

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupted)
	messages := make(chan message)
	go func() {
		defer close(messages)
		for decoder := json.NewDecoder(listen); ; {
			var m message
			if decoder.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	return in.follow(messages, interrupted, progress)
}

// follow prints what the daemon is doing when it takes more than a second.
func (in *instance) follow(messages <-chan message, interrupted <-chan os.Signal, progress io.Writer) error {
	quiet := time.After(time.Second)
	step, spoken := "", false
	for {
		select {
		case <-interrupted:
			return &problem{What: "interrupted; the control plane was cleared away", To: in.dir, Next: "run `control-plane up` again"}
		case <-quiet:
			spoken = true
			fmt.Fprintln(progress, step)
		case m, open := <-messages:
			switch {
			case !open:
				return &problem{What: "the daemon ended while it was starting\n" + tail(in.log("daemon"), 20), To: in.dir, Next: "run `control-plane up` again"}
			case m.Failed != nil:
				if m.Log != "" {
					fmt.Fprintln(progress, m.Log)
				}
				return m.Failed
			case m.Ready:
				return nil
			}
			if step = m.Progress; spoken {
				fmt.Fprintln(progress, step)
			}
		}
	}
}
