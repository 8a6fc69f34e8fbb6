package main

import (
	"encoding/json"
	"log"
	"net"
	"os"
	"time"
)

// request is what `start` and `stop` ask of the daemon: one JSON object over the socket, answered
// by one. Only the user who started the daemon can reach the socket: its folder has the mode 0700.
type request struct {
	Verb      string `json:"verb"`
	Component string `json:"component"`
	Kill      bool   `json:"kill,omitempty"`
}

type answer struct {
	Failed *problem `json:"failed,omitempty"`
}

// listen opens the socket, and first removes one that a killed daemon left behind.
func (d *daemon) listen() error {
	os.Remove(d.Socket)
	listener, err := net.Listen("unix", d.Socket)
	if err != nil {
		return &problem{What: "the control socket cannot be opened: " + err.Error(), To: d.Socket, Next: "choose another folder with --dir"}
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go d.answer(connection)
		}
	}()
	return nil
}

func (d *daemon) answer(connection net.Conn) {
	defer connection.Close()
	var asked request
	if err := json.NewDecoder(connection).Decode(&asked); err != nil {
		return
	}
	log.Printf("asked to %s %s (kill: %t)", asked.Verb, asked.Component, asked.Kill)
	var reply answer
	if err := d.do(asked); err != nil {
		reply.Failed = asProblem(err, d.dir, "see "+d.log("daemon"))
	}
	_ = json.NewEncoder(connection).Encode(reply)
}

func (d *daemon) do(asked request) error {
	if err := checkComponent(asked.Component, d.instance); err != nil {
		return err
	}
	d.verbs.Lock()
	defer d.verbs.Unlock()
	switch asked.Verb {
	case "start":
		return d.startAgain(asked.Component)
	case "stop":
		return d.stop(asked.Component, asked.Kill)
	}
	return &problem{What: "the daemon cannot " + asked.Verb, To: d.dir, Next: "take it down and up again: it was started by another version", Exit: exitUsage}
}

// ask sends a request to the daemon of a running instance and waits until it is done.
func (in *instance) ask(asked request) error {
	connection, err := net.DialTimeout("unix", in.Socket, 5*time.Second)
	if err != nil {
		return &problem{What: "the daemon does not answer: " + err.Error(), To: in.Socket, Next: "run `control-plane down` and `control-plane up`"}
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(startLimit + gracefulLimit))
	if err := json.NewEncoder(connection).Encode(asked); err != nil {
		return err
	}
	var reply answer
	if err := json.NewDecoder(connection).Decode(&reply); err != nil {
		return &problem{What: "the daemon ended before it answered", To: in.dir, Next: "see " + in.log("daemon")}
	}
	if reply.Failed != nil {
		return reply.Failed
	}
	return nil
}
