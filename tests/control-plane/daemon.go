package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	startLimit    = 60 * time.Second // for a slow machine that builds something else meanwhile
	gracefulLimit = 30 * time.Second
)

// daemon is the parent of every component and the only writer of the state file.
type daemon struct {
	*instance
	spawn    spawner
	mutex    sync.Mutex // guards the state, children and every save
	verbs    sync.Mutex // one start or stop at a time
	children map[string]*child
	end      chan string // why everything has to stop
}

// child is one process of a component.
type child struct {
	cmd      *exec.Cmd
	ended    chan struct{}
	expected bool // whether the daemon asked it to end
}

// message is what the daemon reports to the `up` that started it, one JSON object a line.
type message struct {
	Progress string   `json:"progress,omitempty"`
	Failed   *problem `json:"failed,omitempty"`
	Log      string   `json:"log,omitempty"` // of the component that failed
	Ready    bool     `json:"ready,omitempty"`
}

// serve runs a control plane until a stop is requested, its owner ends, or the start fails.
func serve(dir string, up io.WriteCloser) error {
	in, err := load(dir)
	if err != nil {
		return err
	}
	d := &daemon{instance: in, spawn: newSpawner(), children: map[string]*child{}, end: make(chan string, 8)}
	// Known before anything else can fail, so that `down` always finds us.
	if d.Daemon, err = identify(os.Getpid()); err != nil {
		return err
	}
	if err := d.change(func() {}); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var ownerEnded <-chan struct{}
	if d.Owner != nil {
		if ownerEnded, err = d.Owner.onEnd(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	tell := json.NewEncoder(up)
	started := make(chan error, 1)
	go func() { started <- d.start(ctx, func(step string) { _ = tell.Encode(message{Progress: step}) }) }()
	for {
		select {
		case err := <-started:
			if err != nil {
				d.killAll()
				failed := asProblem(err, d.dir, "see the logs above; then run `control-plane up` again")
				_ = tell.Encode(message{Failed: failed, Log: d.failedLog()})
				return failed
			}
			log.Print("ready")
			_ = tell.Encode(message{Ready: true})
			up.Close()
		case sig := <-signals:
			log.Printf("stopping: %s", sig)
			cancel()
			d.killAll()
			return nil
		case <-ownerEnded:
			log.Printf("stopping: the owner, process %d, has ended", d.Owner.PID)
			cancel()
			d.killAll()
			return d.remove()
		}
	}
}

// start starts all components, each as soon as it can be useful.
func (d *daemon) start(ctx context.Context, progress func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	if err := d.listen(); err != nil {
		return err
	}
	progress("starting etcd and kube-apiserver")
	// The API server retries until the store answers, so both load at the same time.
	for _, name := range []string{etcd, kubeAPIServer} {
		if err := d.launch(name); err != nil {
			return err
		}
	}
	for _, name := range []string{etcd, kubeAPIServer} {
		if err := d.awaitReady(ctx, name); err != nil {
			return err
		}
	}
	client, err := d.client()
	if err != nil {
		return err
	}
	if !d.Bare {
		progress("starting kube-controller-manager, kube-scheduler and kwok")
		for _, name := range []string{kubeControllerManager, kwok, kubeScheduler} {
			if err := d.launch(name); err != nil {
				return err
			}
		}
	}
	if err := d.create(ctx, client); err != nil {
		return err
	}
	for _, name := range d.wanted()[2:] {
		if err := d.awaitReady(ctx, name); err != nil {
			return err
		}
	}
	if !d.Bare {
		progress("waiting for Nodes and the default ServiceAccount")
	}
	if err := d.awaitCluster(ctx, client); err != nil {
		return err
	}
	if !d.Bare {
		if err := d.noteVolumes(context.Background(), client); err != nil {
			return err
		}
	}
	return d.change(func() { d.Ready = true })
}

// prepare writes all files that the components read.
func (d *daemon) prepare() error {
	names := append([]string{etcdPeer}, d.wanted()...)
	ports, err := freePorts(names...)
	if err != nil {
		return err
	}
	for _, folder := range []string{"log", "config", "pki"} {
		if err := os.MkdirAll(d.path(folder), 0o700); err != nil {
			return err
		}
	}
	err = d.change(func() {
		d.Ports = ports
		for _, name := range d.wanted() {
			d.Components = append(d.Components, componentState{Name: name, Status: statusStopped, Port: ports[name]})
		}
	})
	return errors.Join(err, d.writeCertificates(d.server()), d.writeConfig())
}

// change alters the state and saves it.
func (d *daemon) change(alter func()) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	alter()
	return d.save()
}

func (d *daemon) setStatus(name, status string, id identity) error {
	return d.change(func() {
		for i := range d.Components {
			if d.Components[i].Name == name {
				d.Components[i].Status, d.Components[i].ID = status, id
			}
		}
	})
}

// launch starts the process of a component and watches for its end.
func (d *daemon) launch(name string) error {
	if !awaitPortFree(d.Ports[name], 5*time.Second) {
		return &problem{What: fmt.Sprintf("port %d of %s is taken by another process", d.Ports[name], name), To: d.dir,
			Next: "find it with `ss -ltnp`, end it, and try again"}
	}
	cmd, err := d.command(name)
	if err != nil {
		return err
	}
	err = d.spawn.start(cmd)
	cmd.Stdout.(*os.File).Close()
	if err != nil {
		return err
	}
	c := &child{cmd: cmd, ended: make(chan struct{})}
	id, _ := identify(cmd.Process.Pid)
	d.mutex.Lock()
	d.children[name] = c
	d.mutex.Unlock()
	if err := d.setStatus(name, statusStarting, id); err != nil {
		return err
	}
	log.Printf("%s started, process %d, port %d", name, id.PID, d.Ports[name])
	go func() {
		err := cmd.Wait()
		d.mutex.Lock()
		status := statusFailed
		if c.expected {
			status = statusStopped
		}
		d.mutex.Unlock()
		log.Printf("%s ended: %v (%s)", name, err, status)
		_ = d.setStatus(name, status, identity{})
		close(c.ended)
	}()
	return nil
}

// awaitReady waits until the component reports that it is ready, or ends.
func (d *daemon) awaitReady(ctx context.Context, name string) error {
	d.mutex.Lock()
	c := d.children[name]
	d.mutex.Unlock()
	probe := d.probe(name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := await(ctx, name, func() (string, bool) {
		err := probe(ctx)
		return fmt.Sprint(err), err == nil
	})
	select {
	case <-c.ended:
		_ = d.setStatus(name, statusFailed, identity{})
		return &problem{What: fmt.Sprintf("%s ended while it was starting (%s)", name, c.cmd.ProcessState), To: d.log(name), Next: "read the log"}
	default:
	}
	if err != nil {
		return &problem{What: err.Error(), To: d.log(name), Next: "read the log; on a machine that is busy, try again"}
	}
	return d.setStatus(name, statusRunning, mustIdentify(c.cmd.Process.Pid))
}

func mustIdentify(pid int) identity {
	id, _ := identify(pid)
	return id
}

// stop ends one component: gracefully, or by SIGKILL as in a crash.
func (d *daemon) stop(name string, kill bool) error {
	d.mutex.Lock()
	c := d.children[name]
	d.mutex.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.ended:
		// A component that has failed counts as stopped once a stop is requested.
		return d.setStatus(name, statusStopped, identity{})
	default:
	}
	d.mutex.Lock()
	c.expected = true
	d.mutex.Unlock()
	if !kill {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.ended:
		case <-time.After(gracefulLimit):
			log.Printf("%s did not end in %s and is killed", name, gracefulLimit)
		}
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
	if !awaitPortFree(d.Ports[name], 5*time.Second) {
		return &problem{What: fmt.Sprintf("port %d of %s is still taken", d.Ports[name], name), To: d.dir, Next: "find the process with `ss -ltnp`"}
	}
	return nil
}

// startAgain starts a component that was stopped, on the same port with the same data.
func (d *daemon) startAgain(name string) error {
	d.mutex.Lock()
	c := d.children[name]
	d.mutex.Unlock()
	if c != nil {
		select {
		case <-c.ended:
		default:
			return nil // it runs
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if name == kwok {
		if err := d.freeNodes(ctx); err != nil {
			log.Printf("%v; their Pods rest until these have run out", err)
		}
	}
	if err := d.launch(name); err != nil {
		return err
	}
	return d.awaitReady(ctx, name)
}

// freeNodes deletes the Leases by which the previous kwok still holds the Nodes: a new one would wait for
// their end. An API server that has just been started may refuse that, or do it in part.
func (d *daemon) freeNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit/3)
	defer cancel()
	client, err := d.client()
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases("kube-node-lease")
	for {
		err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if left, listed := leases.List(ctx, metav1.ListOptions{}); err == nil && listed == nil && len(left.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the leases of the Nodes cannot be taken away: %w", errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// killAll kills all processes. None is stopped gracefully, because all data is deleted as well.
func (d *daemon) killAll() {
	d.mutex.Lock()
	children := make([]*child, 0, len(d.children))
	for _, c := range d.children {
		select {
		case <-c.ended:
		default:
			c.expected = true
			children = append(children, c)
		}
	}
	d.mutex.Unlock()
	for _, c := range children {
		_ = c.cmd.Process.Kill()
	}
	for _, c := range children {
		<-c.ended
	}
	os.Remove(d.Socket)
}

// failedLog returns the end of the log of the component that made a start fail.
func (d *daemon) failedLog() string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, wanted := range []string{statusFailed, statusStarting} {
		for _, c := range d.Components {
			if c.Status == wanted {
				return fmt.Sprintf("the last lines of %s:\n%s", d.log(c.Name), tail(d.log(c.Name), 20))
			}
		}
	}
	return ""
}
