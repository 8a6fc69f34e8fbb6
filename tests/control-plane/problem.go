package main

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes. They are part of the command line: `control-plane --help` lists them.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotRunning = 3
	exitIncomplete = 4
)

// problem is an error in three parts: what happened, to what, and what to do next. It crosses the
// control socket as JSON, so its fields are plain text.
type problem struct {
	What string `json:"what"`
	To   string `json:"to"`
	Next string `json:"next"`
	Exit int    `json:"exit,omitempty"`
}

func (p *problem) Error() string {
	var b strings.Builder
	b.WriteString(p.What)
	if p.To != "" {
		fmt.Fprintf(&b, "\n  where: %s", p.To)
	}
	if p.Next != "" {
		fmt.Fprintf(&b, "\n  next:  %s", p.Next)
	}
	return b.String()
}

// asProblem turns any error into a problem: where it is none yet, it adds what was affected and what to do next.
func asProblem(err error, to, next string) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return &problem{What: err.Error(), To: to, Next: next}
}

func exitCode(err error) int {
	var p *problem
	if errors.As(err, &p) && p.Exit != 0 {
		return p.Exit
	}
	return exitFailed
}
