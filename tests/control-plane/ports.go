package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

// freePorts picks loopback ports below the range the kernel takes outgoing connections from. A
// port in that range could be taken by any client while its component is stopped, even by a
// client that is reconnecting to it.
func freePorts(names ...string) (map[string]int, error) {
	low, high := 10240, 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &high)
	}
	if high-low < 1000 {
		low, high = 32768, 61000
	}
	ports, taken := map[string]int{}, map[int]bool{}
	for _, name := range names {
		for tries := 0; ports[name] == 0; tries++ {
			if tries == 1000 {
				return nil, &problem{What: "no free port was found", To: fmt.Sprintf("127.0.0.1, ports %d to %d", low, high),
					Next: "see what listens there with `ss -ltn`"}
			}
			port := low + rand.IntN(high-low)
			if !taken[port] && portFree(port) {
				ports[name], taken[port] = port, true
			}
		}
	}
	return ports, nil
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}

// awaitPortFree waits until a listener that is going away is gone.
func awaitPortFree(port int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); !portFree(port); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
